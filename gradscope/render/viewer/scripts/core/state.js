/** Time travel: the state of every node after an event, computed from its runs. */

import { Index } from "./data.js";

/** @typedef {import("./data.js").Model} Model */

export const NOT_RUN = 0;
export const WAITING = 1;
export const READY = 2;
export const RUNNING = 3;
export const DONE = 4;
export const FAILED = 5;
export const GLYPHS = ["○", "◌", "◔", "◉", "✓", "✖"];
export const WORDS = ["not run", "waiting", "ready", "running", "done", "failed"];

/** The states of all nodes at one event, of one backward or of all. */
export class States {
  /** @param {Model} model */
  constructor(model) {
    this.model = model;
    this.of = new Uint8Array(model.nodes.length);
    this.at = NaN;
    this.backward = NaN;
    const kinds = model.facts.events;
    const decrement = kinds.indexOf("decrement");
    const { events } = model;
    const kind = events.get("kind");
    this.arrivals = new Index(
      events.get("node").map((/** @type {number} */ node, /** @type {number} */ event) => (kind[event] === decrement ? node : -1)),
      model.nodes.length,
    );
  }

  /** The events of a backward, or all of a rank: they follow each other. @param {number} backward -1 for all @param {number} rank @returns {[number, number]} first and last */
  range(backward, rank) {
    const { backwards, events } = this.model;
    if (backward < 0 && rank >= 0) {
      const owner = this.model.rankOfEvent;
      return [Math.max(owner.indexOf(rank), 0), Math.max(owner.lastIndexOf(rank), 0)];
    }
    if (backward < 0 || backwards.get("first")[backward] < 0) return [0, Math.max(events.length - 1, 0)];
    return [backwards.get("first")[backward], backwards.get("last")[backward]];
  }

  /** Update all states to an event. @param {number} event @param {number} backward */
  go(event, backward) {
    if (event === this.at && backward === this.backward) return;
    [this.at, this.backward] = [event, backward];
    const { runs } = this.model;
    const { node, pushed, begun, ended, failed, backward: owner } = runs.columns;
    this.of.fill(NOT_RUN);
    for (let run = 0; run < runs.length; run += 1) {
      if (node[run] < 0 || backward >= 0 && owner[run] !== backward) continue;
      const first = pushed[run] >= 0 ? pushed[run] : begun[run];
      if (first > event) {
        if (this.of[node[run]] === NOT_RUN) this.of[node[run]] = WAITING;
      } else if (ended[run] >= 0 && ended[run] <= event) this.of[node[run]] = failed[run] ? FAILED : DONE;
      else this.of[node[run]] = begun[run] >= 0 && begun[run] <= event ? RUNNING : READY;
    }
  }

  /** The number of gradients that arrived at a node, and the number it waits for. @param {number} node @returns {[number, number]} */
  gradients(node) {
    const { events } = this.model;
    const owner = events.get("backward");
    const at = this.backward >= 0 ? this.backward : owner[Math.min(this.at, events.length - 1)];
    let come = 0;
    let all = 0;
    for (const event of this.arrivals.of(node)) {
      if (owner[event] !== at) continue;
      all += 1;
      if (event <= this.at) come += 1;
    }
    return [come, all];
  }

  /** Whether it has a state of its own. @param {number} node */
  has(node) {
    return node >= 0;
  }

  /** The state of several nodes as one: running while some are done and others are not. @param {number[]} counts @returns {number} */
  together(counts) {
    const [notRun, waiting, ready, running, done, failed] = counts;
    if (failed) return FAILED;
    if (running || done && (waiting || ready)) return RUNNING;
    if (done) return DONE;
    if (ready) return READY;
    return waiting || !notRun ? WAITING : NOT_RUN;
  }

  /** How many nodes of each state. @param {Iterable<number>} nodes @returns {number[]} */
  counts(nodes) {
    const found = [0, 0, 0, 0, 0, 0];
    for (const node of nodes) found[this.of[node]] += 1;
    return found;
  }
}
