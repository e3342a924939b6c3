/** How two traces are shown: the later graph, the earlier one, both next to each other, or over each other. */

import { made } from "../panels/outline.js";
import { GraphPanel } from "../panels/graph.js";
import { Before } from "./before.js";
import { Ghosts } from "./ghosts.js";

/** @typedef {import("../core/app.js").App} App */

export const VIEWS = ["after", "before", "both", "over"];
const NAMES = { after: "after", before: "before", both: "side by side", over: "over each other" };

/** The menu above the graph, and the second graph. */
export class Sides {
  /** @param {import("../core/forward.js").Graphs} graphs @param {GraphPanel} graph @param {import("../paint/paint.js").Colours} colours */
  constructor(graphs, graph, colours) {
    this.graphs = graphs;
    this.app = graphs.main;
    this.graph = graph;
    this.colours = colours;
    /** @type {Before | null} made when it is first shown */
    this.before = null;
    this.select = this.menu();
    this.rows = made("div", "graphs");
    this.frame = /** @type {HTMLElement} */ (graph.canvas.parentElement);
    this.frame.replaceWith(this.rows);
    this.rows.append(this.frame);
    graphs.listeners.push((shown) => {
      this.select.disabled = shown !== this.app;
      this.show(shown === this.app ? this.select.value : "after");
    });
  }

  /** @returns {HTMLSelectElement} */
  menu() {
    const label = made("label", "part");
    const select = /** @type {HTMLSelectElement} */ (made("select"));
    select.id = "sides";
    select.setAttribute("aria-label", "Which of the two traces is drawn");
    for (const view of VIEWS) select.append(new Option(NAMES[/** @type {keyof NAMES} */ (view)], view));
    label.append(made("span", "", "show"), select);
    /** @type {HTMLElement} */ (document.getElementById("backward")).closest("label")?.after(label);
    select.addEventListener("change", () => this.show(select.value));
    return select;
  }

  begin() {
    if (this.before) return this.before;
    const [name] = this.app.changed?.facts.names ?? [""];
    const frame = made("div", "canvas before");
    const canvas = made("canvas");
    canvas.id = "graph-before";
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `The backward graph of ${name}.`);
    const map = made("canvas", "map");
    map.id = "map-before";
    map.setAttribute("aria-hidden", "true");
    const zoom = made("div", "zoom");
    for (const [id, sign, words] of [["zoom-in", "+", "zoom in"], ["zoom-out", "−", "zoom out"], ["zoom-all", "⤢", "fit the whole picture"]]) {
      const button = made("button", "", sign);
      button.id = `${id}-before`;
      button.title = `${words}: ${name}`;
      button.append(made("span", "hidden", ` ${words}: ${name}`));
      zoom.append(button);
    }
    frame.append(canvas, map, zoom, this.caption(0));
    this.later = this.caption(1);
    this.frame.append(this.later);
    this.rows.prepend(frame);
    const before = new Before(this.app);
    this.before = before;
    this.panel = new GraphPanel(before, this.colours, this.graph.card, "-before");
    before.view = this.panel.view;
    this.app.follow((changes) => { if (changes.has("look")) this.panel?.paintSoon(); });
    return before;
  }

  /** The name of a trace, over its graph. @param {number} place */
  caption(place) {
    return made("p", "caption", this.captionOf(place));
  }

  /** @param {number} place */
  captionOf(place) {
    return `${place ? "after" : "before"}: ${this.app.changed?.facts.names[place]}${place ? "" : ", at its end; details are of the later run"}`;
  }

  /** @param {string} view */
  show(view) {
    if (view !== "after") this.begin();
    if (this.graphs.shown === this.app) this.select.value = view;
    this.rows.dataset.view = view;
    if (this.later) this.later.textContent = this.captionOf(1) + (view !== "over" ? "" : this.app.model.tables.gone.length ? `; dashed: gone since ${this.app.changed?.facts.names[0]}` : `; nothing is gone since ${this.app.changed?.facts.names[0]}`);
    const ghosts = view === "over" && this.before ? new Ghosts(this.before) : null;
    if (Boolean(ghosts) !== Boolean(this.app.ghosts)) {
      this.app.ghosts = ghosts;
      this.app.choseGhost = (/** @type {number} */ row) => this.showBefore(this.app.model.tables.gone.get("row")[row]);
      this.app.draw();
      this.app.tell("picture");
    }
    this.graph.resize();
    this.panel?.resize();
  }

  /** Show a node of the earlier trace. @param {number} node */
  showBefore(node) {
    if (node < 0) return;
    const before = this.begin();
    if (this.graphs.shown !== this.app) this.graphs.show(false);
    if (this.select.value === "after" || this.select.value === "over") this.show("both");
    before.selectNode(node);
    before.unfold(node);
  }

  // The address ------------------------------------------------------------------------------

  /** @returns {string} */
  get fragment() {
    return this.select.value === "after" ? "" : `s=${this.select.value}`;
  }

  /** @param {string | undefined} view */
  restore(view) {
    this.show(view && VIEWS.includes(view) ? view : "after");
  }
}
