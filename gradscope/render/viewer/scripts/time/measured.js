/** What ran in a selected period of time: how long it is, how many nodes and calls, how busy each thread was, and the slowest. */

import { link, made } from "../panels/outline.js";
import { duration, plural } from "../core/words.js";

const LISTED = 5;

/**
 * What was measured.
 * @typedef {object} Measures
 * @property {number} ns
 * @property {number} nodes
 * @property {number} calls
 * @property {{name: string, ns: number, parts: [string, number][]}[]} busy of each thread the time in all parts, and in each
 * @property {{kind: "nodes" | "calls", id: number, ns: number}[]} slowest
 */

/** Measure a period: all that has a part in it. @param {import("./bars.js").Bars} bars @param {[number, number]} period @returns {Measures} */
function measure(bars, [from, to]) {
  const ran = { nodes: 0, calls: 0 };
  const busy = [];
  /** @type {Measures["slowest"]} */
  const slowest = [];
  for (const thread of bars.threads) {
    for (const kind of /** @type {const} */ (["nodes", "calls"])) {
      (thread.rows[kind] ?? []).forEach((row, depth) => {
        const [first, after] = row.range(from, to);
        ran[kind] += after - first;
        if (kind === "calls" && depth) return;
        for (let at = first; at < after; at += 1) {
          const inside = Math.min(row.end[at], to) - Math.max(row.begin[at], from);
          rank(slowest, kind, row.ids[at], Math.min(bars.ownTime(kind, row.ids[at]), inside));
        }
      });
    }
    const parts = /** @type {[string, number][]} */ ([["nodes", thread.ran.busy(from, to)], ["calls", thread.called.busy(from, to)], ["optimizer and collectives", thread.worked.busy(from, to)]]);
    busy.push({ name: thread.name, ns: thread.busy.busy(from, to), parts: parts.filter(([, took]) => took > 0) });
  }
  return { ns: to - from, ...ran, busy: busy.filter((each) => each.ns > 0), slowest };
}

/** Keep the few slowest. @param {Measures["slowest"]} slowest @param {"nodes" | "calls"} kind @param {number} id @param {number} ns */
function rank(slowest, kind, id, ns) {
  if (ns <= 0 || slowest.length === LISTED && ns <= slowest[LISTED - 1].ns) return;
  if (slowest.length === LISTED) slowest.pop();
  slowest.push({ kind, id, ns });
  slowest.sort((one, other) => other.ns - one.ns);
}

/** The line about the selected period. */
export class Measured {
  /** @param {import("./timeline.js").Timeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
    this.element = /** @type {HTMLElement} */ (document.getElementById("measured"));
  }

  /** @param {[number, number] | null} period */
  show(period) {
    const { element, timeline } = this;
    element.hidden = !period;
    if (!period) return;
    const { ns, nodes, calls, busy, slowest } = this.of(period);
    const parts = [`${plural(nodes, "node")} and ${plural(calls, "call")} ran in it`];
    for (const each of busy) {
      const of = each.parts.map(([part, took]) => `${part} ${duration(took)}`).join(", ");
      parts.push(`${each.name}: ${duration(each.ns)} recorded (${Math.round(100 * each.ns / ns)}%): ${of}`);
    }
    const words = made("span", "", `${duration(ns)} selected: ${parts.join("; ")}`);
    element.replaceChildren(words);
    if (slowest.length) element.append(made("span", "soft", "most of it: "));
    for (const { kind, id, ns: took } of slowest) {
      element.append(link(`${timeline.bars.title(kind, id)} ${duration(took)}`, () => timeline.choose(kind, id)));
    }
    const close = link("clear (Esc)", () => {
      timeline.app.range = null;
      timeline.app.tell("range");
    });
    element.append(close);
  }

  /** @param {[number, number]} period @returns {Measures} */
  of(period) {
    return measure(this.timeline.bars, period);
  }

  /** What was measured, in words. */
  get words() {
    return this.element.hidden ? "" : this.element.firstChild?.textContent ?? "";
  }
}
