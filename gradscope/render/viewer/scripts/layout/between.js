/** Columns side by side, with lines in the space around them for ways from one to another. The twin of scene/layout/between.py, which says how. */

import { FIRST, LAST, WHOLE } from "./columns.js";
import { layRows } from "./layered.js";

/**
 * @typedef {import("./layered.js").Point} Point @typedef {import("./columns.js").Column} Column @typedef {import("./columns.js").Turn} Turn
 * @typedef {{link: number, part: number, points: Point[]}} Led a way, or one end of it
 * @typedef {{turn: Turn, start: Point[], end: Point[], up: number}} Bent a way that leaves a column below and comes to another from above
 */

const GUTTER = 34;
const BESIDE_TURN = 14;
const TRACK = 7;

/** @param {{all: Column[], turns: Turn[]}} columns @returns {{width: number, height: number, routes: Led[]}} */
export function sideBySide({ all, turns }) {
  const many = countBy(turns);
  let [at, bottom] = [0, 0];
  const edges = /** @type {number[]} */ ([]);
  const found = /** @type {Led[]} */ ([]);
  all.forEach((column, number) => {
    const rows = layRows(column.pieces, column.ways, column.rowOf);
    for (const piece of column.pieces) piece.x += at;
    for (const [id, points] of rows.ways) found.push({ link: Math.floor(id / 3), part: id % 3, points: points.map(([x, y]) => [x + at, y]) });
    edges.push(at + rows.width);
    const lines = many.get(number) ?? 0;
    const needed = lines ? 2 * BESIDE_TURN + (lines - 1) * TRACK : 0;
    at += rows.width + (number < all.length - 1 ? Math.max(GUTTER, needed) : needed && needed - TRACK);
    bottom = Math.max(bottom, rows.height);
  });
  if (!turns.length) return { width: at, height: bottom, routes: found };
  const { over, under, bent } = bentOf(turns, found, edges, bottom);
  for (const column of all) for (const piece of column.pieces) piece.y += over;
  const straight = found.filter(({ link }) => !bent.has(link));
  const routes = [...straight, ...[...bent].map(([link, points]) => ({ link, part: WHOLE, points }))];
  return { width: at, height: bottom + over + under, routes: routes.map((each) => ({ ...each, points: each.points.map(([x, y]) => [x, y + over]) })) };
}

/** @param {Turn[]} turns */
function countBy(turns) {
  const many = new Map();
  for (const { gutter } of turns) many.set(gutter, (many.get(gutter) ?? 0) + 1);
  return many;
}

/** The room above and below the columns, and the points of each way between them. @param {Turn[]} turns @param {Led[]} found @param {number[]} edges @param {number} bottom */
function bentOf(turns, found, edges, bottom) {
  const of = new Map(found.map(({ link, part, points }) => [3 * link + part, points]));
  const bends = turns.map((turn) => ({ turn, start: of.get(3 * turn.link + FIRST), end: of.get(3 * turn.link + LAST), up: 0 }));
  const beside = new Map();
  // The nearest to its gutter turns up first: two ways to the same column do not cross.
  for (const bend of [...bends].sort((one, other) => startOf(other) - startOf(one))) {
    const { gutter } = bend.turn;
    const before = beside.get(gutter) ?? 0;
    bend.up = edges[gutter] + BESIDE_TURN + before * TRACK;
    beside.set(gutter, before + 1);
  }
  const low = tracksOf(bends, startOf, (bend) => -startOf(bend));
  const high = tracksOf(bends, (bend) => bend.end[0][0], (bend) => -bend.up);
  const bent = new Map();
  for (const bend of bends) {
    const { start, end, up, turn: { link } } = bend;
    const [below, above] = [bottom + (low.get(link) + 1) * TRACK, -(high.get(link) + 1) * TRACK];
    bent.set(link, [...start, [startOf(bend), below], [up, below], [up, above], [end[0][0], above], ...end]);
  }
  return { over: (Math.max(...high.values()) + 2) * TRACK, under: (Math.max(...low.values()) + 2) * TRACK, bent };
}

/** @param {Bent} bend */
function startOf({ start }) {
  return start[start.length - 1][0];
}

/** By link, its track, from the columns outwards: no two lines on a track overlap. @param {Bent[]} bends @param {(bend: Bent) => number} end @param {(bend: Bent) => number} order @returns {Map<number, number>} */
function tracksOf(bends, end, order) {
  const tracks = /** @type {[number, number][][]} */ ([]);
  const found = new Map();
  for (const bend of [...bends].sort((one, other) => order(one) - order(other))) {
    const [left, right] = [Math.min(end(bend), bend.up), Math.max(end(bend), bend.up)];
    let number = tracks.findIndex((others) => others.every(([from, to]) => to + TRACK < left || right + TRACK < from));
    if (number < 0) number = tracks.push([]) - 1;
    tracks[number].push([left, right]);
    found.set(bend.turn.link, number);
  }
  return found;
}
