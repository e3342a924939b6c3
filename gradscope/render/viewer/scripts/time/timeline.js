/** The timeline: one axis of time, the overview and the lanes on it, and the playhead. */

import { Axis } from "./axis.js";
import { BarFacts } from "./bar_facts.js";
import { Bars } from "./bars.js";
import { LaneCursor } from "./lane_cursor.js";
import { laneList } from "./lane_list.js";
import { LanePointer } from "./lane_pointer.js";
import { Lanes } from "./lanes.js";
import { Measured } from "./measured.js";
import { Moment } from "./moment.js";
import { Overview } from "./overview.js";
import { Player } from "./player.js";
import { TopEdge } from "./top_edge.js";

/** @typedef {import("../core/app.js").App} App */
/** @typedef {import("./lane_list.js").Lane} Lane */
/** @typedef {import("./bars.js").Kind} Kind */

const LEAST_SHARE = 0.05;

/** What the page shows over time. */
export class Timeline {
  /** @param {import("../core/forward.js").Graphs} graphs @param {import("../paint/paint.js").Colours} colours @param {import("../panels/hover_card.js").HoverCard} card */
  constructor(graphs, colours, card) {
    const app = graphs.main;
    this.graphs = graphs;
    this.app = app;
    this.colours = colours;
    this.axis = new Axis();
    app.axis = this.axis;
    this.bars = new Bars(app.model);
    this.canvas = /** @type {HTMLCanvasElement} */ (document.getElementById("timeline"));
    this.scroller = /** @type {HTMLElement} */ (document.getElementById("lanes"));
    this.program = false;
    /** @type {Lane[]} */
    this.lanes = [];
    this.height = 0;
    this.size = "";
    this.card = card;
    this.facts = new BarFacts(this);
    this.cursor = new LaneCursor(this);
    this.painter = new Lanes(this);
    this.overview = new Overview(this);
    this.measured = new Measured(this);
    this.moment = new Moment(this);
    this.player = new Player(this);
    this.edge = new TopEdge(this);
    this.pointer = new LanePointer(this);
    this.listen();
    app.follow((changes) => this.update(changes));
    this.extend();
    this.resize();
  }

  listen() {
    const { app } = this;
    const on = (/** @type {string} */ id, /** @type {() => void} */ act) => /** @type {HTMLElement} */ (document.getElementById(id)).addEventListener("click", act);
    on("begin", () => this.goTo(this.axis.least));
    on("finish", () => this.goTo(this.axis.most));
    on("back", () => app.go(app.event - 1));
    on("on", () => app.go(app.event + 1));
    on("play", () => this.player.play());
    on("show-all-time", () => this.showWhole());
    on("whole-program", () => this.showProgram(!this.program));
    this.scroller.addEventListener("scroll", () => this.painter.paint());
    new ResizeObserver(() => this.resize()).observe(this.scroller);
  }

  // The axis ---------------------------------------------------------------------------------------

  /** The extent of the axis: the step of the backward that is shown, or the whole program. @returns {[number, number]} */
  get extent() {
    const { app, bars } = this;
    const { backwards } = app.model;
    const { steps } = app.model.tables;
    const { backward } = app;
    if (backward < 0 || this.program) return [bars.first, bars.last];
    const [begin, end] = this.periodOf(backward);
    const step = backwards.get("in_step")[backward];
    if (step < 0) return backwards.length === 1 ? [bars.first, bars.last] : [begin, end];
    return [Math.min(Math.max(steps.get("begin")[step], bars.first), begin), Math.max(bars.ends.steps[step], end)];
  }

  /** Whether the axis shows several steps. */
  get showsSteps() {
    return (this.app.backward < 0 || this.program) && this.stepCount > 1;
  }

  /** The number of steps of the rank that is shown. */
  get stepCount() {
    return this.bars.steps.reduce((sum, row) => sum + row.length, 0);
  }

  /** When a backward ran. @param {number} backward @returns {[number, number]} */
  periodOf(backward) {
    const { backwards } = this.app.model;
    const [begin, end] = [backwards.get("begin")[backward], backwards.get("end")[backward]];
    return [Math.max(begin, 0), end < begin ? this.bars.last : end];
  }

  /** What the axis shows, in words. */
  get extentTitle() {
    const { app } = this;
    const { tables } = app.model;
    const step = app.backward >= 0 && !this.program ? tables.backwards.get("in_step")[app.backward] : -1;
    return step >= 0 && this.stepCount > 1 ? this.title({ kind: "steps" }, step) : "all";
  }

  /** Lay the axis over what is shown, and find the lanes of it. */
  extend() {
    const { axis, app } = this;
    this.bars.show(app.rank);
    const [least, most] = this.extent;
    const isSame = least === axis.least && most === axis.most;
    if (!isSame) axis.extend(least, most);
    const found = laneList(this.bars, axis, this.showsSteps);
    this.lanes = found.lanes;
    this.height = found.height;
    this.cursor.clear();
    this.card.hide();
    const button = /** @type {HTMLElement} */ (document.getElementById("whole-program"));
    button.hidden = app.backward < 0 || this.stepCount < 2;
    button.setAttribute("aria-pressed", String(this.program));
    if (!isSame) this.begin();
    this.edge.fit();
  }

  /** At first the lanes show the whole extent, or less where the backward would be a sliver of it. */
  begin() {
    const { axis, app } = this;
    if (this.showsSteps) {
      axis.show(this.bars.steps[0].begin[0], axis.most);
    }
    if (app.backward < 0 || this.program) return;
    const [begin, end] = this.periodOf(app.backward);
    for (const from of [axis.least, this.firstCall(begin)]) {
      axis.show(from, axis.most);
      if ((end - begin) / (axis.to - axis.from) >= LEAST_SHARE) return;
    }
    const around = Math.max((end - begin) / 20, 1);
    axis.show(begin - around, end + around);
  }

  /** When the first call began that made a node of the backward that is shown. @param {number} begin of the backward */
  firstCall(begin) {
    const { app, bars } = this;
    const { calls } = app.model.tables;
    const { runs } = app.model;
    if (!calls) return begin;
    const { backward, node } = runs.columns;
    const made = calls.get("made");
    const ran = new Uint8Array(app.model.nodes.length);
    for (let run = 0; run < node.length; run += 1) if (backward[run] === app.backward && node[run] >= 0) ran[node[run]] = 1;
    let first = begin;
    for (let call = 0; call < bars.calls.drawn; call += 1) {
      const t = bars.calls.begin[call];
      if (t >= this.axis.least && t < first && made[call] >= 0 && ran[made[call]]) first = t;
    }
    return first;
  }

  /** @param {boolean} program whether the axis shows the whole program instead of one step */
  showProgram(program) {
    this.program = program;
    this.extend();
    this.overview.paint();
    this.app.tell("window", "event");
  }

  showWhole() {
    this.axis.whole();
    this.windowMoved();
  }

  /** @param {number} from @param {number} to */
  showPeriod(from, to) {
    this.axis.show(from, to);
    this.windowMoved();
  }

  /** @param {number} factor @param {number} t */
  zoom(factor, t) {
    this.axis.zoom(factor, t);
    this.windowMoved();
  }

  /** Zoom at the playhead, or in the middle if it is not seen. @param {number} factor */
  zoomHere(factor) {
    const { axis, app } = this;
    this.zoom(factor, app.t >= axis.from && app.t <= axis.to ? app.t : (axis.from + axis.to) / 2);
  }

  /** @param {number} share of what is seen */
  pan(share) {
    this.axis.pan(share);
    this.windowMoved();
  }

  /** @param {WheelEvent} event @param {number} t the moment at the pointer */
  wheel(event, t) {
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan((event.deltaX || event.deltaY) / 600);
    else this.zoom(Math.exp(event.deltaY * 0.002), t);
  }

  /** Paint the lanes before the next frame. */
  windowMoved() {
    this.app.tell("window");
  }

  // The playhead -----------------------------------------------------------------------------------

  /** Go to a moment of the axis. @param {number} t */
  goTo(t) {
    this.app.goTo(Math.min(Math.max(t, this.axis.least), this.axis.most));
  }

  // Changes ----------------------------------------------------------------------------------------

  /** @param {Set<import("../core/app.js").Change>} changes */
  update(changes) {
    const { app, axis } = this;
    if (changes.has("backward")) this.extend();
    let moved = false;
    if (changes.has("event")) moved = axis.reach(app.t);
    if (changes.has("selection")) moved = this.reachSelection() || moved;
    if (changes.has("event") || changes.has("backward") || changes.has("look")) this.moment.say();
    if (changes.has("range")) this.measured.show(app.range);
    if (changes.has("backward") || changes.has("look")) this.overview.paint();
    else if (moved || changes.has("event") || changes.has("window")) this.overview.front();
    const lanes = /** @type {const} */ (["selection", "backward", "look", "range", "window"]);
    if (moved || lanes.some((each) => changes.has(each))) this.painter.paint();
    else if (changes.has("event")) this.painter.headOnly();
  }

  resize() {
    const size = `${this.scroller.clientWidth} ${this.scroller.clientHeight} ${innerHeight} ${devicePixelRatio}`;
    if (size === this.size) return;
    this.size = size;
    this.axis.resize(this.scroller.clientWidth);
    this.edge.fit();
    this.app.tell("look");
  }

  // Bars -------------------------------------------------------------------------------------------

  /** @param {{kind: Lane["kind"]}} lane @param {number} id @returns {string} */
  title(lane, id) {
    const { tables, nodes } = this.app.model;
    switch (lane.kind) {
      case "steps": return `step ${tables.steps.get("number")[id]}`;
      case "backward": return tables.backwards.text("title", id).replace(/ at \S*[\\/]/, " at ");
      case "marks": return tables.marks.text("name", id);
      case "grad": return tables.arrivals.get("node")[id] >= 0 ? nodes.texts.length ? this.app.model.title(tables.arrivals.get("node")[id]) : "" : ".grad";
      default: return this.bars.title(/** @type {Kind} */ (lane.kind), id);
    }
  }

  /** When a bar begins. @param {Lane} lane @param {number} id */
  beginOf(lane, id) {
    return this.bars.sources[/** @type {Kind} */ (lane.kind)].begin[id];
  }

  /** @param {Lane} lane @param {number} id */
  endOf(lane, id) {
    return this.bars.sources[/** @type {Kind} */ (lane.kind)].end[id];
  }

  /** The bars of a lane that belong to what is selected. @param {Lane} lane @returns {number[]} */
  selected(lane) {
    const { app, graphs } = this;
    if (lane.kind === "nodes" && app.node >= 0) return [...app.model.runsOf.of(app.node)];
    if (lane.kind !== "calls" || !app.model.tables.calls) return [];
    if (graphs.call >= 0) return [graphs.call];
    const call = app.node >= 0 ? app.model.tables.calls.get("made").indexOf(app.node) : -1;
    return call >= 0 ? [call] : [];
  }

  /** Move the window so that the selected node's run is seen. */
  reachSelection() {
    const { app, axis } = this;
    const run = app.node >= 0 ? app.runOf(app.node) : -1;
    if (run < 0 || !app.centre) return false;
    const { begin, end } = this.bars.sources.nodes;
    return begin[run] >= axis.least && begin[run] <= axis.most && axis.reach(begin[run], end[run]);
  }

  /** Select what a bar stands for, and go to its begin. @param {Lane["kind"]} kind @param {number} id */
  choose(kind, id) {
    const { app, graphs, bars } = this;
    const { runs, tables } = app.model;
    if (kind === "steps") this.showStep(id);
    else if (kind === "backward") app.setBackward(id);
    else if (kind === "modules") this.chooseModule(tables.module_runs.text("path", id));
    else if (kind === "calls" && graphs.shown !== app && id < bars.calls.drawn) graphs.shown.selectNode(id);
    else {
      const node = { nodes: () => runs.get("node")[id], calls: () => bars.nodeOfCall(id), hooks: () => tables.hooks.get("node")[id], grad: () => tables.arrivals.get("node")[id] }[/** @type {string} */ (kind)]?.() ?? -1;
      app.selectNode(node);
    }
    if (kind === "nodes" && runs.get("backward")[id] === app.backward && runs.get("begun")[id] >= 0) app.go(runs.get("begun")[id]);
    else if (kind in bars.sources) this.goTo(bars.sources[/** @type {Kind} */ (kind)].begin[id]);
  }

  /** Show the first backward of a step. @param {number} step */
  showStep(step) {
    const backward = this.app.model.backwards.get("in_step").indexOf(step);
    if (backward >= 0) this.app.setBackward(backward);
  }

  /** @param {string} path */
  chooseModule(path) {
    const { shown } = this.graphs;
    const group = shown.groupAt(path);
    if (group >= 0) shown.showGroup(group);
  }

  /** Why there is no lane. */
  get nothing() {
    return `No lanes: ${this.app.model.whyUnseen}.`;
  }

  // Levels -----------------------------------------------------------------------------------------

  /** The place of the value at a moment; -1 before the first. @param {Lane} lane @param {number} t */
  placeIn(lane, t) {
    const times = /** @type {ArrayLike<number>} */ (lane.t);
    let [low, high] = [0, times.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle] <= t) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  /** The highest value on the axis. @param {Lane & {high?: number}} lane */
  highest(lane) {
    if (lane.high === undefined) {
      const value = /** @type {ArrayLike<number>} */ (lane.value);
      lane.high = 0;
      for (let at = Math.max(this.placeIn(lane, this.axis.least), 0); at <= this.placeIn(lane, this.axis.most); at += 1) lane.high = Math.max(lane.high, value[at]);
    }
    return lane.high;
  }
}
