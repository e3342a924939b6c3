/** The layout of pictures in the page, fitted to the available room. */

import { Nest } from "../layout/nested.js";

/**
 * @typedef {object} Item a box, or a group with items of its own
 * @property {string} key
 * @property {number} w
 * @property {number} h
 * @property {number} order what is larger stands above
 * @property {string} [title]
 * @property {string} [ordinal]
 * @property {string} [is]
 * @property {Item[]} [items] of a group
 * @property {number} [titleWidth] of a group
 * @property {number} [x] after layout, of its left upper corner
 * @property {number} [y]
 * @typedef {{tail: string, head: string}} Edge
 * @typedef {{tail: string, head: string, link: number, points: [number, number][], begins: boolean, ends: boolean, turns: boolean}} Route of an edge, or of one end of it where it is cut; `turns`: it goes up between columns
 * @typedef {{x: number, y: number, text: string}} Stub what stands at the end of an edge that is cut
 */

export const TITLE = 26;
const [GAP, ROW] = [18, 26];
/** So tall may columns be, in shares of what suits the area of all boxes. */
const SHARES = [0.8, 1.15, 1.6, 2.2, 3];
const MANY = 150;
const SHORTEST = 300;
/** The scale at which titles can be read: what is smaller is never taken for fewer stubs. */
const LEAST_READABLE = 0.7;
/** How much larger a picture must be for one more way between columns, and for one more stub. */
const [A_TURN, A_CUT] = [0.01, 0.05];

/**
 * Lay out a group and everything in it: of several layouts the one in which most can be read.
 * @param {Item} root @param {Edge[]} edges between boxes, by their keys
 * @param {number[]} room width and height of what it is to be seen in
 * @param {import("../layout/columns.js").Measure} measure
 * @returns {{routes: Route[], stubs: Stub[]}}
 */
export function layOut(root, edges, room, measure) {
  /** @type {Map<string, Item>} */
  const items = new Map();
  const [boxes, frames] = sizedOf(root, items);
  const links = edges.map(({ tail, head }) => ({ tail, head, label: 0, loose: items.get(head).is === "leaf" }));
  let best = null;
  let most = [-1, 0];
  for (const tallest of heightsFor(boxes, room)) {
    const placed = new Nest(boxes, frames, links, tallest, measure).placed();
    const scale = Math.min(room[0] / placed.width, room[1] / placed.height, 1);
    const turns = placed.courses.filter(({ points }) => goesUp(points)).length;
    const legible = [Math.min(scale, LEAST_READABLE) - A_TURN * turns - A_CUT * placed.stubs.length, scale];
    if (!best || legible[0] > most[0] || legible[0] === most[0] && legible[1] > most[1]) [best, most] = [placed, legible];
    if (!placed.stubs.length && !turns && scale >= LEAST_READABLE) break;
  }
  const found = /** @type {import("../layout/nested.js").Placed} */ (best);
  for (const [key, { x, y, width, height }] of [...found.boxes, ...found.frames]) Object.assign(items.get(key), { x, y, w: width, h: height });
  Object.assign(root, { x: 0, y: 0, w: found.width, h: found.height });
  return {
    routes: found.courses.map(({ link, points, begins, ends }) => ({ tail: links[link].tail, head: links[link].head, link, points, begins, ends, turns: goesUp(points) })),
    stubs: found.stubs.map(({ place, text }) => ({ x: place.x, y: place.y, text })),
  };
}

/** @param {[number, number][]} points @returns {boolean} */
function goesUp(points) {
  return points.some(([, y], at) => at > 0 && y < points[at - 1][1]);
}

/** All boxes, and frames after those around them, each from above. @param {Item} root @param {Map<string, Item>} items gets them by key */
function sizedOf(root, items) {
  const boxes = [];
  const frames = [];
  const waiting = /** @type {[Item, string][]} */ ([[root, ""]]);
  for (const [group, parent] of waiting) {
    for (const item of [...group.items ?? []].sort((one, other) => other.order - one.order)) {
      items.set(item.key, item);
      if (item.items) {
        frames.push({ id: item.key, width: item.titleWidth ?? 0, height: TITLE, parent, title: "" });
        waiting.push([item, item.key]);
      } else boxes.push({ id: item.key, width: item.w, height: item.h, parent, title: `${item.title ?? ""} ${item.ordinal ?? ""}`.trim() });
    }
  }
  return [boxes, frames];
}

/** How tall columns may be: each is tried, first one that holds all. @param {import("../layout/nested.js").Sized[]} boxes @param {number[]} room */
function heightsFor(boxes, room) {
  const area = boxes.reduce((sum, { width, height }) => sum + (width + GAP) * (height + ROW), 0);
  const side = Math.sqrt(area * 1.6 * room[1] / room[0]);
  if (boxes.length > MANY) return SHARES.slice(1, 3).map((share) => Math.max(side * share, SHORTEST));
  return [Infinity, ...SHARES.map((share) => Math.max(side * share, SHORTEST))];
}
