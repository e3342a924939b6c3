/** The facts about a bar, a block of bars or a level, for the card next to the pointer. */

import { byteCount, count, duration, plural } from "../core/words.js";

/** @typedef {import("./lane_list.js").Lane} Lane */
/** @typedef {[string, string][]} Facts */

const PARTS_OF_CALLS = ["call", "call in a backward", "call of an optimizer"];

/** Facts about what the lanes show. */
export class BarFacts {
  /** @param {import("./timeline.js").Timeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
    this.bars = timeline.bars;
    this.model = timeline.app.model;
    this.threads = new Map(this.bars.allThreads.map((thread) => [thread.id, thread.name]));
  }

  /** @param {Lane} lane @param {number} id @returns {Facts} */
  of(lane, id) {
    const found = { nodes: () => this.node(id), calls: () => this.call(id), modules: () => this.module(id), spans: () => this.span(id), hooks: () => this.hook(id), grad: () => this.arrival(id), marks: () => this.mark(id), steps: () => this.step(id), backward: () => this.backward(id) };
    const facts = found[/** @type {keyof found} */ (lane.kind)]();
    if (lane.thread !== undefined) {
      facts.push(["thread", this.threads.get(lane.thread) ?? String(lane.thread)]);
      const own = lane.kind === "spans" ? 0 : this.bars.ownWork(lane.thread, this.timeline.beginOf(lane, id), this.timeline.endOf(lane, id));
      if (own > 0) facts.push(["of it gradscope's own work", duration(own)]);
    }
    return facts.filter(([, value]) => value !== "");
  }

  /** When something started, counted as on the axis. @param {number} t @returns {[string, string]} */
  started(t) {
    const { axis } = this.timeline;
    return ["started at", t < axis.least ? `${duration(axis.least - t)} before this axis` : duration(t - axis.least)];
  }

  /** @param {number} begin @param {number} end -1 where it did not end @returns {Facts} */
  took(begin, end) {
    return [["took", end < 0 ? "did not end" : duration(end - begin)], this.started(begin)];
  }

  /** @param {number} run @returns {Facts} */
  node(run) {
    const { runs, nodes, backwards } = this.model;
    const { saved } = this.model.tables;
    const node = runs.get("node")[run];
    const [begin, end, pushed] = ["begun_t", "ended_t", "pushed_t"].map((name) => runs.get(name)[run]);
    const facts = /** @type {Facts} */ ([["kind", `node${runs.get("failed")[run] ? ", failed" : ""}`], ...this.took(begin, end)]);
    if (runs.get("self_ns")[run] >= 0) facts.splice(2, 0, ["own time", duration(runs.get("self_ns")[run])]);
    if (pushed >= 0) facts.push(["waited in queue", duration(begin - pushed)]);
    const backward = runs.get("backward")[run];
    if (backward >= 0) facts.push(["backward", backwards.text("title", backward).replace(/ at \S*[\\/]/, " at ")]);
    if (node < 0) return facts;
    facts.push(["created in", step(nodes.get("step")[node])], ["shape", nodes.text("shape", node)], ["module", nodes.text("module", node)]);
    const bytes = [...this.model.savedOf.of(node)].reduce((sum, row) => sum + Math.max(saved.get("bytes")[row], 0), 0);
    if (bytes) facts.push(["saved", byteCount(bytes)]);
    return facts;
  }

  /** @param {number} id @returns {Facts} */
  call(id) {
    const { calls, other_calls: others } = this.model.tables;
    const { begin, end, ended, drawn } = this.bars.calls;
    const row = id - drawn;
    const node = this.bars.nodeOfCall(id);
    const facts = /** @type {Facts} */ ([["kind", row >= 0 ? PARTS_OF_CALLS[others.get("part")[row]] : "call"]]);
    if (ended[id]) facts.push(["took", duration(end[id] - begin[id])]);
    else facts.push(["took", this.bars.endsSeen ? "did not end" : "not recorded"]);
    facts.push(this.started(begin[id]), ["node", node >= 0 ? this.model.title(node) : row < 0 ? calls.text("why", id) || "none" : ""]);
    if (row < 0) facts.push(["step", step(calls.get("step")[id])], ["result", calls.text("shape", id)], ["module", calls.text("module", id)]);
    return facts;
  }

  /** @param {number} id @returns {Facts} */
  module(id) {
    const { module_runs: modules } = this.model.tables;
    const where = modules.get("in_backward")[id] ? "backward" : "forward";
    return [["kind", `module, ${where}`], ["class", modules.text("type", id)], ...this.took(modules.get("begin")[id], modules.get("end")[id])];
  }

  /** @param {number} id @returns {Facts} */
  span(id) {
    const { spans } = this.model.tables;
    const phase = spans.text("phase", id);
    const kind = { user: "span of the program", "own work": "gradscope's own work, excluded from all sums" }[phase] ?? phase;
    return [["kind", kind], ...this.took(spans.get("begin")[id], spans.get("end")[id])];
  }

  /** @param {number} id @returns {Facts} */
  hook(id) {
    const { hooks } = this.model.tables;
    const node = hooks.get("node")[id];
    return [
      ["kind", `hook (${hooks.text("kind", id)})`], ["node", node >= 0 ? this.model.title(node) : ""], ["registered at", hooks.text("place", id)],
      ...this.took(hooks.get("begin")[id], hooks.get("end")[id]), ["gradient", hooks.get("replaced")[id] ? "replaced" : "left as it was"],
    ];
  }

  /** @param {number} id @returns {Facts} */
  arrival(id) {
    const { arrivals } = this.model.tables;
    return [["kind", "gradient that arrived in .grad"], ["how", arrivals.text("how", id)], this.started(arrivals.get("t")[id])];
  }

  /** @param {number} id @returns {Facts} */
  mark(id) {
    const { marks } = this.model.tables;
    return [["kind", "mark of the program"], ["note", marks.text("note", id)], this.started(marks.get("t")[id])];
  }

  /** @param {number} id @returns {Facts} */
  step(id) {
    const { steps, backwards } = this.model.tables;
    const many = backwards.get("in_step").filter((/** @type {number} */ row) => row === id).length;
    return [["kind", "training step"], ...this.took(steps.get("begin")[id], steps.get("end")[id]), ["backwards", count(many)], ["click", "show this step"]];
  }

  /** @param {number} id @returns {Facts} */
  backward(id) {
    const { backwards } = this.model;
    return [["kind", "backward"], ...this.took(backwards.get("begin")[id], backwards.get("end")[id]), ["called at", backwards.text("call", id)], ["raised", backwards.text("error", id)], ["click", "show this backward"]];
  }

  /** Several bars that are too narrow to be told apart. @param {Lane} lane @param {import("./bar_painter.js").Piece} piece @returns {[string, Facts]} */
  block(lane, piece) {
    const row = /** @type {import("./bar_row.js").BarRow} */ (lane.row);
    const nouns = /** @type {Record<string, string>} */ ({ nodes: "node", calls: "call", modules: "module", spans: "span", hooks: "hook", grad: "gradient", marks: "mark", steps: "step", backward: "backward" });
    let longest = piece.first;
    for (let at = piece.first; at <= piece.last; at += 1) if (row.end[at] - row.begin[at] > row.end[longest] - row.begin[longest]) longest = at;
    const sum = row.sums[piece.last + 1] - row.sums[piece.first];
    return [plural(piece.last - piece.first + 1, nouns[lane.kind]), [
      ["together", duration(sum)], ["longest", `${this.timeline.title(lane, row.ids[longest])}, ${duration(row.end[longest] - row.begin[longest])}`], this.started(row.begin[piece.first]), ["each", "zoom in"],
    ]];
  }

  /** A level at a moment. @param {Lane} lane @param {number} t @returns {[string, Facts]} */
  level(lane, t) {
    const at = this.timeline.placeIn(lane, t);
    const value = at < 0 ? 0 : /** @type {ArrayLike<number>} */ (lane.value)[at];
    if (lane.kind === "queue") return [`${count(value)} ready`, [["kind", "length of the ready queue"], ["at", duration(t - this.timeline.axis.least)]]];
    return [byteCount(value), [["kind", "saved for backward, each storage once"], ["at", duration(t - this.timeline.axis.least)]]];
  }
}

/** @param {number} number */
function step(number) {
  return number >= 0 ? `step ${number}` : "";
}
