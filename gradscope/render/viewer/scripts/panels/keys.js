/** The keyboard shortcuts. */

import { made } from "./outline.js";

/** @typedef {import("../core/app.js").App} App */

const HELP = [
  ["/   n  N", "search; next, previous hit"], ["↑ ↓ ← →", "in the graph: follow arrows backwards or forwards; previous, next box of the row"],
  ["Enter   Z", "open or fold; fold all"], ["f   + −   0", "center the selection; zoom; fit the whole picture"],
  ["x  X", "next, previous finding"], ["p   c   e   g", "critical path; next coloring; shapes on the arrows; forward or backward graph"], ["1 … 7   Tab", "summary, outline, findings, slowest, memory, graph, details"],
  [",  .", "one event back, forward"], ["<  >", "previous, next run of a node"], ["{  }", "previous, next backward"],
  ["Space   Home  End", "play; go to the start; go to the end"], ["w s   a d   q", "zoom time; move in it; show all of it"], ["b", "one step or the whole program"],
  ["in the lanes", "arrows: from bar to bar; Enter: select it; wheel: zoom; Shift and wheel: move; drag: measure"], ["t", "light, dark or system theme"], ["Esc   ?", "clear the selection; this list"],
];

const ABOUT = [
  ["◌ waiting", "for gradients (dashed outline)"], ["◔ ready", "all gradients arrived, waiting in a queue (thick outline)"], ["◉ running", "(solid)"],
  ["✓ done", "(in the color of its kind)"], ["✖ failed", "raised an exception"], ["○ not run", "no backward reached it (dotted outline)"],
];

/** Handles keys pressed anywhere on the page. */
export class Keys {
  /** @param {import("../core/forward.js").Graphs} graphs @param {Record<string, any>} panels */
  constructor(graphs, panels) {
    this.graphs = graphs;
    this.main = graphs.main;
    this.panels = panels;
    this.dialog = /** @type {HTMLDialogElement} */ (document.getElementById("keys"));
    this.fill();
    document.addEventListener("keydown", (event) => this.press(event));
    /** @type {HTMLElement} */ (document.getElementById("help")).addEventListener("click", () => this.dialog.showModal());
    this.acts = this.table();
  }

  /** The graph that is shown. */
  get app() {
    return this.graphs.shown;
  }

  fill() {
    const title = made("h2", "", "Step through a backward");
    title.id = "keys-title";
    const about = made("p", "soft", "Boxes are backward functions; arrows are gradients, from the loss down to the leaves. The playhead at the bottom steps through the events of the engine, and the graph shows the state of each node at that moment.");
    const close = /** @type {HTMLButtonElement} */ (made("button", "", "close"));
    close.addEventListener("click", () => this.dialog.close());
    this.dialog.append(title, about, this.terms(ABOUT, "strong"), made("h3", "", "Keys"), this.terms(HELP, "kbd"), close);
  }

  /** @param {string[][]} rows @param {string} tag */
  terms(rows, tag) {
    const list = made("dl");
    for (const [name, words] of rows) {
      const term = made("dt");
      term.append(made(tag, "", name));
      list.append(term, made("dd", "", words));
    }
    return list;
  }

  /** @returns {Record<string, () => void>} */
  table() {
    const { main: app, panels } = this;
    const { graph, timeline, search, findings } = panels;
    return {
      "/": () => search.input.focus(), n: () => search.turn(1), N: () => search.turn(-1),
      Enter: () => this.open(), Z: () => this.app.foldAll(), g: () => panels.turn(),
      f: () => { graph.centre(); graph.paintSoon(); }, "+": () => graph.zoom(1.3), "=": () => graph.zoom(1.3), "-": () => graph.zoom(1 / 1.3), 0: () => graph.fit(),
      x: () => findings.turn(1), X: () => findings.turn(-1), p: panels.critical, c: panels.coloring,
      1: () => panels.tab("summary"), 2: () => panels.tab("outline"), 3: () => panels.tab("findings"), 4: () => panels.tab("slowest"), 5: () => panels.tab("memory"),
      6: () => graph.canvas.focus(), 7: () => panels.details(),
      ",": () => app.turn(-1), ".": () => app.turn(1), "<": () => this.nextRun(-1), ">": () => this.nextRun(1),
      "{": () => this.backward(-1), "}": () => this.backward(1), " ": () => timeline.player.play(), Home: () => timeline.goTo(timeline.axis.least), End: () => timeline.goTo(timeline.axis.most),
      w: () => timeline.zoomHere(1 / 1.4), s: () => timeline.zoomHere(1.4), a: () => timeline.pan(-0.2), d: () => timeline.pan(0.2), q: () => timeline.showWhole(), b: () => timeline.showProgram(!timeline.program),
      t: panels.look, e: panels.shapes, "?": () => this.dialog.showModal(), Escape: () => { this.app.clear(); panels.drawers(""); },
      ArrowDown: () => this.walk("down"), ArrowUp: () => this.walk("up"), ArrowLeft: () => this.sibling(-1), ArrowRight: () => this.sibling(1),
    };
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || this.dialog.open) return;
    const target = /** @type {HTMLElement} */ (event.target);
    const own = target.matches("input, textarea") || target.matches("select") && /^(Arrow|Enter|Home|End|Page| )/.test(event.key) || target.matches("button, [role=tab]") && [" ", "Enter"].includes(event.key);
    if (own && event.key !== "Escape") return;
    if (target.matches("[role=tab]") && event.key.startsWith("Arrow")) return;
    const act = this.acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  /** Open or fold the selected group, or what is inside of the selected node; show the node if it is folded. */
  open() {
    const { app } = this;
    if (app.group >= 0) this.panels.graph.toggle(app.group);
    else if (app.node >= 0) {
      const box = app.picture.boxFor(app.node);
      if (box && box.is === "group") app.unfold(app.node);
      else if (app.tree.insides.has(app.node)) this.panels.graph.toggle(~app.node);
      else if (app.homeOf(app.node) !== app.root) app.selectGroup(app.homeOf(app.node), false);
    }
  }

  /** Along the arrows or against them, from box to box. @param {"down" | "up"} way */
  walk(way) {
    const { app } = this;
    const target = this.panels.graph.target;
    if (!target) {
      this.select(this.top());
      return;
    }
    const next = app.picture.edges.filter((each) => (way === "down" ? each.tail : each.head) === target.key).map((each) => app.picture.boxes.get(way === "down" ? each.head : each.tail))
      .filter((box) => box.is !== "inside");
    next.sort((one, other) => (one.is === "leaf" ? 1 : 0) - (other.is === "leaf" ? 1 : 0) || one.x - other.x);
    if (next.length) this.select(next[0]);
  }

  /** To the next box in the same row. @param {number} step */
  sibling(step) {
    const target = this.panels.graph.target;
    if (!target) {
      this.select(this.top());
      return;
    }
    const row = this.app.picture.all.filter((box) => box !== target && box.is !== "inside" && box.y < target.y + target.h && box.y + box.h > target.y && Math.sign(box.x - target.x) === step);
    row.sort((one, other) => step * (one.x - other.x));
    if (row.length) this.select(row[0]);
  }

  top() {
    return [...this.app.picture.all].sort((one, other) => one.y - other.y)[0];
  }

  select(box) {
    if (!box) return;
    if (box.is === "ghost") this.app.choseGhost?.(box.ghost);
    else if (box.is === "group") this.app.selectGroup(box.group);
    else this.app.selectNode(box.node);
  }

  /** To the run that starts next, or before. @param {number} step */
  nextRun(step) {
    const { main: app } = this;
    const { begun, node, backward } = app.model.runs.columns;
    let best = -1;
    for (let run = 0; run < begun.length; run += 1) {
      if (begun[run] < 0 || node[run] < 0 || app.backward >= 0 && backward[run] !== app.backward) continue;
      const nearer = step > 0 ? begun[run] > app.event && (best < 0 || begun[run] < begun[best]) : begun[run] < app.event && (best < 0 || begun[run] > begun[best]);
      if (nearer) best = run;
    }
    if (best < 0) return;
    app.go(begun[best]);
    app.selectNode(node[best]);
  }

  /** @param {number} step */
  backward(step) {
    const { main: app } = this;
    app.turnBackward(step);
  }
}
