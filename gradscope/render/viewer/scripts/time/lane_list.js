/** Which lanes there are in a period, from top to bottom, and where each lies. */

import { KINDS_OF_BARS } from "./bars.js";

/** @typedef {import("./bar_row.js").BarRow} BarRow */
/** @typedef {import("./bars.js").Bars} Bars */
/** @typedef {import("./bars.js").Kind} Kind */

/**
 * One lane: a row of bars, a level over time, or the name of a thread.
 * @typedef {object} Lane
 * @property {"bars" | "level" | "name"} form
 * @property {Kind | "steps" | "backward" | "marks" | "grad" | "queue" | "saved" | "thread"} kind
 * @property {string} title
 * @property {number} h
 * @property {number} y
 * @property {BarRow} [row]
 * @property {BarRow} [asleep]
 * @property {number} [thread]
 * @property {ArrayLike<number>} [t]
 * @property {ArrayLike<number>} [value]
 */

export const RULER = 20;
const LANE_HEIGHTS = { steps: 15, backward: 15, marks: 15, spans: 15, modules: 15, calls: 17, nodes: 22, hooks: 12, grad: 12, queue: 20, saved: 26, thread: 17 };
const LANE_TITLES = { spans: "spans", modules: "modules", calls: "calls", nodes: "nodes", hooks: "hooks" };
const LANE_GAP = 3;

/**
 * @param {Bars} bars @param {{least: number, most: number}} axis @param {boolean} several whether the axis shows several steps
 * @returns {{lanes: Lane[], height: number}}
 */
export function laneList(bars, { least, most }, several) {
  /** @type {Lane[]} */
  const lanes = [];
  const isEmpty = (/** @type {BarRow} */ row) => {
    const [first, after] = row.range(least, most);
    return first >= after;
  };
  /** @param {Lane["kind"]} kind @param {string} title @param {BarRow[]} rows @param {Partial<Lane>} [more] */
  const add = (kind, title, rows, more) => {
    const seen = rows.filter((row) => !isEmpty(row));
    seen.forEach((row, depth) => lanes.push({ form: "bars", kind, title: depth ? "" : title, h: LANE_HEIGHTS[kind], y: 0, row, ...more }));
  };
  if (several) add("steps", "steps", bars.steps);
  add("backward", "backwards", bars.backwards);
  add("marks", "marks", bars.marks);
  const threads = bars.threads.filter((thread) => KINDS_OF_BARS.some((kind) => thread.rows[kind]?.some((row) => !isEmpty(row))));
  for (const thread of threads) {
    if (threads.length > 1) lanes.push({ form: "name", kind: "thread", title: thread.name, h: LANE_HEIGHTS.thread, y: 0, thread: thread.id });
    for (const kind of KINDS_OF_BARS) {
      add(kind, kind === "calls" && !bars.endsSeen ? "calls (starts)" : LANE_TITLES[kind], thread.rows[kind] ?? [], { thread: thread.id, ...(kind === "nodes" ? { asleep: thread.asleep } : {}) });
    }
    for (const queue of bars.queuesOf(thread.id)) lanes.push({ form: "level", kind: "queue", title: bars.queues.length > 1 ? `queue ${queue.id}` : "queue", h: LANE_HEIGHTS.queue, y: 0, t: queue.t, value: queue.value });
  }
  add("grad", ".grad", [bars.arrivals]);
  if (bars.saved.t.length) lanes.push({ form: "level", kind: "saved", title: "saved", h: LANE_HEIGHTS.saved, y: 0, ...bars.saved });
  let y = RULER + 2;
  for (const lane of lanes) {
    lane.y = y;
    y += lane.h + (lane.title || lane.form !== "bars" ? LANE_GAP : 1);
  }
  return { lanes, height: y + 4 };
}
