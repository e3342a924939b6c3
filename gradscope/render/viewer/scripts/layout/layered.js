/**
 * Pieces in rows, each below those that lead to it, with ways between them that touch no piece.
 *
 * The twin of scene/layout/layered.py, which says how; both give the same places.
 */

import { BETWEEN, gapAfter, straighten } from "./straight.js";

export const WIDEST_ROW = 2200;
const LANE = 6;
export const ROW_GAP = 26;
const UNDER_LABEL = 14;
const SWEEPS = 6;
const SETTLINGS = 10;

/** Something that stands in a row. Ways enter above and leave below. */
export class Piece {
  /** @param {number} width @param {number} height @param {boolean} [fixed] its ports are where they are @param {boolean} [lane] */
  constructor(width, height, fixed = false, lane = false) {
    this.width = width;
    this.height = height;
    this.fixed = fixed;
    this.lane = lane;
    /** @type {Map<number, number>} by way: how far from the left */
    this.portsIn = new Map();
    /** @type {Map<number, number>} */
    this.portsOut = new Map();
    this.x = 0;
    this.y = 0;
  }
}

/**
 * A way between two pieces: null is the outside. `label`: how wide its label is; `loose`: it need not be straight.
 * @typedef {{id: number, tail: Piece | null, head: Piece | null, label: number, loose: boolean}} Way
 * @typedef {{upper: Piece, lower: Piece, way: Way}} Step a part of a way, from one row to the next
 * @typedef {[number, number]} Point
 */

/** @template K, V @param {Map<K, V[]>} map @param {K} key @param {V} value */
function append(map, key, value) {
  const known = map.get(key);
  if (known) known.push(value);
  else map.set(key, [value]);
}

/** The row of each piece: below all that lead to it, where there is room; sources lower down. @param {Piece[]} pieces @param {Way[]} ways @param {number} mostWidth @returns {Map<Piece, number>} */
export function ranks(pieces, ways, mostWidth) {
  /** @type {Map<Piece, Piece[]>} */
  const onward = new Map();
  for (const { tail, head } of ways) if (tail && head && tail !== head) append(onward, tail, head);
  const order = upperFirst(pieces, onward);
  const rankIn = new Map(order.map((piece, number) => [piece, number]));
  const later = (/** @type {Piece} */ piece) => (onward.get(piece) ?? []).filter((other) => rankIn.get(other) > rankIn.get(piece));
  /** @type {Map<Piece, Piece[]>} */
  const above = new Map();
  for (const piece of order) for (const other of later(piece)) append(above, other, piece);
  const row = new Map();
  /** @type {Map<number, number>} */
  const filled = new Map();
  const full = (/** @type {number} */ at) => filled.get(at) ?? 0;
  for (const piece of order) {
    let at = Math.max(0, ...(above.get(piece) ?? []).map((other) => row.get(other) + 1));
    while (full(at) && full(at) + piece.width > mostWidth) at += 1;
    row.set(piece, at);
    filled.set(at, full(at) + piece.width + BETWEEN);
  }
  for (const piece of [...order].reverse()) {
    const below = later(piece).map((other) => row.get(other));
    if (above.has(piece) || !below.length) continue;
    const at = Math.min(...below) - 1;
    if (full(at) + piece.width <= mostWidth || at === row.get(piece)) {
      filled.set(row.get(piece), full(row.get(piece)) - (piece.width + BETWEEN));
      filled.set(at, full(at) + piece.width + BETWEEN);
      row.set(piece, at);
    }
  }
  const used = new Map([...new Set(row.values())].sort((one, other) => one - other).map((at, number) => [at, number]));
  return new Map(pieces.map((piece) => [piece, used.get(row.get(piece))]));
}

/** All pieces, each before those it leads to, as far as there are no cycles. @param {Piece[]} pieces @param {Map<Piece, Piece[]>} onward */
function upperFirst(pieces, onward) {
  const done = new Set();
  const order = [];
  const below = new Set([...onward.values()].flat());
  const sources = pieces.filter((piece) => !below.has(piece));
  for (const start of [...sources.reverse(), ...pieces]) {
    const waiting = /** @type {{piece: Piece, at: number}[]} */ (done.has(start) ? [] : [{ piece: start, at: 0 }]);
    done.add(start);
    while (waiting.length) {
      const last = waiting[waiting.length - 1];
      const others = onward.get(last.piece) ?? [];
      while (last.at < others.length && done.has(others[last.at])) last.at += 1;
      if (last.at === others.length) {
        order.push(last.piece);
        waiting.pop();
      } else {
        done.add(others[last.at]);
        waiting.push({ piece: others[last.at], at: 0 });
      }
    }
  }
  return order.reverse();
}

/** Give each piece its place, and each way its course. Ways must lead downwards. @param {Piece[]} pieces @param {Way[]} ways @param {Map<Piece, number>} rowOf @returns {{width: number, height: number, ways: Map<number, Point[]>}} */
export function layRows(pieces, ways, rowOf) {
  const number = new Map([...new Set(rowOf.values())].sort((one, other) => one - other).map((row, at) => [row, at]));
  const rowIn = new Map([...rowOf].map(([piece, row]) => [piece, number.get(row)]));
  /** @type {Piece[][]} */
  const rows = Array.from({ length: number.size + 2 }, () => []);
  for (const piece of pieces) rows[rowIn.get(piece) + 1].push(piece);
  const steps = stepsOf(ways, rowIn, rows);
  inOrder(rows, steps);
  for (let turn = 0; turn < 2; turn += 1) { // where ways leave depends on where they go, and the other way round
    placePorts(steps);
    settle(rows, steps);
  }
  straighten(rows, steps);
  const all = rows.flat();
  const left = all.reduce((least, piece) => Math.min(least, piece.x), all.length ? Infinity : 0);
  for (const piece of all) piece.x -= left;
  const width = all.reduce((most, piece) => Math.max(most, piece.x + piece.width), all.length ? -Infinity : 0);
  const { tops, bottoms } = heightsOf(rows, steps);
  return { width, height: bottoms[bottoms.length - 1], ways: coursesOf(ways, steps, tops, bottoms, rows) };
}

/** The steps of each way, with lanes in the rows between; lanes and ports join their rows. @param {Way[]} ways @param {Map<Piece, number>} rowOf @param {Piece[][]} rows @returns {Map<number, Step[]>} */
function stepsOf(ways, rowOf, rows) {
  const found = new Map();
  for (const way of ways) {
    const first = way.tail ? rowOf.get(way.tail) + 1 : 0;
    const last = way.head ? rowOf.get(way.head) + 1 : rows.length - 1;
    let upper = way.tail ?? laneOf(way, rows[0]);
    const steps = [];
    for (let row = first + 1; row <= last; row += 1) {
      const lower = row === last && way.head ? way.head : laneOf(way, rows[row]);
      steps.push({ upper, lower, way });
      upper = lower;
    }
    found.set(way.id, steps);
  }
  return found;
}

/** @param {Way} way @param {Piece[]} row */
function laneOf(way, row) {
  const lane = new Piece(LANE, 0, true, true);
  lane.portsIn.set(way.id, LANE / 2);
  lane.portsOut.set(way.id, LANE / 2);
  row.push(lane);
  return lane;
}

// Order ---------------------------------------------------------------------------------------

/** Put each row into the order with the fewest crossings that a few sweeps come by. @param {Piece[][]} rows @param {Map<number, Step[]>} steps */
function inOrder(rows, steps) {
  /** @type {Map<Piece, [Piece, number][]>} */
  const down = new Map();
  /** @type {Map<Piece, [Piece, number][]>} */
  const up = new Map();
  for (const each of steps.values()) {
    for (const { upper, lower, way } of each) {
      append(down, upper, [lower, way.id]);
      append(up, lower, [upper, way.id]);
    }
  }
  for (const [{ fixed, portsOut }, below] of down) if (fixed) below.sort((one, other) => portsOut.get(one[1]) - portsOut.get(other[1]));
  for (let number = 1; number < rows.length; number += 1) { // begin as the row above leads
    const first = new Map();
    for (const piece of rows[number - 1]) {
      for (const [lower] of down.get(piece) ?? []) if (!first.has(lower)) first.set(lower, first.size);
    }
    sortBy(rows[number], (piece) => first.get(piece) ?? first.size);
  }
  let best = rows.map((row) => [...row]);
  let fewest = crossingsIn(rows, down);
  for (let sweep = 0; sweep < SWEEPS && fewest; sweep += 1) {
    sweepRows(rows, sweep % 2 === 0 ? up : down, sweep % 2 === 1);
    const crossings = crossingsIn(rows, down);
    if (crossings < fewest) [best, fewest] = [rows.map((row) => [...row]), crossings];
  }
  rows.forEach((row, at) => {
    row.splice(0, row.length, ...best[at]);
    packRow(row);
  });
}

/** @param {Piece[]} row @param {(piece: Piece) => number} key */
function sortBy(row, key) {
  const keys = new Map(row.map((piece) => [piece, key(piece)]));
  row.sort((one, other) => keys.get(one) - keys.get(other));
}

/** Order each row by the means of its neighbours in the row before. @param {Piece[][]} rows @param {Map<Piece, [Piece, number][]>} neighbours @param {boolean} reverse */
function sweepRows(rows, neighbours, reverse) {
  for (const row of rows) packRow(row);
  for (const row of reverse ? [...rows].reverse() : rows) {
    sortBy(row, (piece) => {
      const near = neighbours.get(piece) ?? [];
      if (!near.length) return piece.x + piece.width / 2;
      let sum = 0;
      for (const [other, id] of near) sum += other.x + ((reverse ? other.portsIn : other.portsOut).get(id) ?? other.width / 2);
      return sum / near.length;
    });
    packRow(row);
  }
}

/** One beside the other, around the middle. @param {Piece[]} row */
function packRow(row) {
  let at = 0;
  for (const piece of row) {
    piece.x = at;
    at += piece.width + gapAfter(piece);
  }
  for (const piece of row) piece.x -= at / 2;
}

/** @param {Piece[][]} rows @param {Map<Piece, [Piece, number][]>} down */
function crossingsIn(rows, down) {
  let found = 0;
  for (let at = 1; at < rows.length; at += 1) {
    const number = new Map(rows[at].map((piece, each) => [piece, each]));
    /** @type {number[]} */
    const seen = [];
    for (const piece of rows[at - 1]) {
      const ends = (down.get(piece) ?? []).flatMap(([other, id]) => (number.has(other) ? number.get(other) + (other.fixed ? other.portsIn.get(id) / other.width : 0) : []));
      if (ends.length === 1 || piece.fixed) {
        for (const end of ends) {
          const place = behind(seen, end);
          found += seen.length - place;
          seen.splice(place, 0, end);
        }
        continue;
      }
      for (const end of ends) found += seen.length - behind(seen, end);
      for (const end of ends) seen.splice(behind(seen, end), 0, end);
    }
  }
  return found;
}

/** The first place behind all that are not larger. @param {number[]} sorted @param {number} value */
function behind(sorted, value) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Places --------------------------------------------------------------------------------------

/** Spread the ways of each piece along its edges, in the order of their other ends. @param {Map<number, Step[]>} steps */
function placePorts(steps) {
  /** @type {Map<Piece, [number, Way][]>} */
  const leaving = new Map();
  /** @type {Map<Piece, [number, Way][]>} */
  const coming = new Map();
  for (const each of steps.values()) {
    for (const { upper, lower, way } of each) {
      if (!upper.fixed) append(leaving, upper, [lower.x + (lower.portsIn.get(way.id) ?? lower.width / 2), way]);
      if (!lower.fixed) append(coming, lower, [upper.x + (upper.portsOut.get(way.id) ?? upper.width / 2), way]);
    }
  }
  const sorted = (/** @type {[number, Way][]} */ ways) => ways.sort((one, other) => one[0] - other[0] || one[1].id - other[1].id).map(([, way]) => way);
  for (const [piece, ways] of leaving) spreadPorts(piece.width, sorted(ways), piece.portsOut, true);
  for (const [piece, ways] of coming) spreadPorts(piece.width, sorted(ways), piece.portsIn, false);
}

/** @param {number} width @param {Way[]} ways @param {Map<number, number>} ports @param {boolean} labels */
function spreadPorts(width, ways, ports, labels) {
  const slots = ways.map((way) => (!labels ? 12 : way.label ? way.label + 12 : 10));
  const sum = slots.reduce((all, each) => all + each, 0);
  const scale = Math.min(1, (width - 8) / sum);
  let at = (width - sum * scale) / 2;
  ways.forEach((way, number) => {
    const each = slots[number];
    ports.set(way.id, ways.length === 1 ? width / 2 : at + (labels && way.label ? 4 : each / 2) * scale);
    at += each * scale;
  });
}

/** Move pieces towards their neighbours, without changing their order. @param {Piece[][]} rows @param {Map<number, Step[]>} steps */
function settle(rows, steps) {
  /** @type {Map<Piece, [Piece, number, number][]>} */
  const pulls = new Map();
  /** @type {Map<Piece, number>} */
  const weights = new Map();
  for (const each of steps.values()) {
    for (const { upper, lower, way } of each) {
      const weight = upper.lane && lower.lane ? 4 : way.loose ? 0.15 : 1;
      const shift = upper.portsOut.get(way.id) - lower.portsIn.get(way.id);
      append(pulls, lower, [upper, shift, weight]);
      append(pulls, upper, [lower, -shift, weight]);
      weights.set(lower, (weights.get(lower) ?? 0) + weight);
      weights.set(upper, (weights.get(upper) ?? 0) + weight);
    }
  }
  const pulled = rows.map((row) => row.map((piece) => /** @type {Pulled} */ ([piece, pulls.get(piece) ?? [], weights.get(piece) ?? 0.01])));
  const upwards = [...pulled].reverse();
  for (let number = 0; number < SETTLINGS; number += 1) {
    for (const row of number % 2 === 0 ? pulled : upwards) if (row.length) settleRow(row);
  }
}

/** @typedef {[Piece, [Piece, number, number][], number]} Pulled a piece, who pulls it how far and how much, and how much they all do */

/** The places nearest to where neighbours pull, by least squares, none over another. @param {Pulled[]} row */
function settleRow(row) {
  let offset = 0;
  /** @type {[number, number, number][]} of each block: weight, weighted sum, how many pieces */
  const blocks = [];
  const offsets = [];
  for (const [piece, near, pull] of row) {
    offsets.push(offset);
    let wish = 0;
    for (const [other, shift, each] of near) wish += (other.x + shift) * each;
    wish = (near.length ? wish / pull : piece.x) - offset;
    let [weight, total, many] = [pull, pull * wish, 1];
    while (blocks.length && blocks[blocks.length - 1][1] * weight > total * blocks[blocks.length - 1][0]) {
      const before = blocks.pop();
      [weight, total, many] = [before[0] + weight, before[1] + total, before[2] + many];
    }
    blocks.push([weight, total, many]);
    offset += piece.width + gapAfter(piece);
  }
  let at = 0;
  for (const [weight, total, many] of blocks) {
    for (let number = at; number < at + many; number += 1) row[number][0].x = total / weight + offsets[number];
    at += many;
  }
}

/** Where each row begins and ends; pieces stand at the top of theirs. @param {Piece[][]} rows @param {Map<number, Step[]>} steps */
function heightsOf(rows, steps) {
  const labelled = new Set([...steps.values()].flatMap((each) => (each.length && each[0].way.label ? [each[0].upper] : [])));
  /** @type {Map<Piece, number>} */
  const slant = new Map();
  for (const each of steps.values()) {
    for (const { upper, lower, way } of each) {
      const far = upper.x + upper.portsOut.get(way.id) - lower.x - lower.portsIn.get(way.id);
      slant.set(upper, Math.max(slant.get(upper) ?? 0, Math.abs(far)));
    }
  }
  const [tops, bottoms] = [/** @type {number[]} */ ([]), /** @type {number[]} */ ([])];
  let at = 0;
  rows.forEach((row, number) => {
    const height = row.reduce((most, piece) => Math.max(most, piece.height + (labelled.has(piece) ? UNDER_LABEL : 0)), 0);
    tops.push(at);
    bottoms.push(at + height);
    for (const piece of row) piece.y = at;
    at += height;
    if (!row.length || number + 1 === rows.length || !rows[number + 1].length) return;
    at += number === 0 || number === rows.length - 2 ? ROW_GAP / 2 : ROW_GAP;
    at += Math.min(26, 0.06 * row.reduce((most, piece) => Math.max(most, slant.get(piece) ?? 0), 0));
  });
  return { tops, bottoms };
}

/** The points of each way: straight down where two are in line, else a bend between rows. @param {Way[]} ways @param {Map<number, Step[]>} steps @param {number[]} tops @param {number[]} bottoms @param {Piece[][]} rows @returns {Map<number, Point[]>} */
function coursesOf(ways, steps, tops, bottoms, rows) {
  const rowOf = new Map(rows.flatMap((row, number) => row.map((piece) => [piece, number])));
  const found = new Map();
  for (const { id } of ways) {
    /** @type {Point[]} */
    const points = [];
    for (const { upper, lower } of steps.get(id)) {
      const x = upper.x + upper.portsOut.get(id);
      const at = rowOf.get(upper);
      points.push([x, upper.lane ? tops[at] : upper.y + upper.height], [x, bottoms[at]]);
      points.push([lower.x + lower.portsIn.get(id), tops[rowOf.get(lower)]]);
    }
    found.set(id, points);
  }
  return found;
}
