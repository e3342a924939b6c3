/** What is taller than it may be goes on in another column; ways between columns turn up beside them, or become stubs. The twin of scene/layout/columns.py. */

import { Piece, ROW_GAP } from "./layered.js";

/** @typedef {import("./layered.js").Way} Way */
/** @typedef {(text: string) => {text: string, width: number}} Measure a text as it is shown, and how wide that is */

const FEW_LANES = 60;
const LANES_EACH = 3;
const LEAST_FILLED = 0.25;
const [MOST_TURNS, TURNS_EACH] = [24, 4];
const MOST_STUBS = 3;
export const STUB_HEIGHT = 18.5;
export const [WHOLE, FIRST, LAST] = [0, 1, 2];

/** @param {number} way @param {number} part @returns {number} the number of a part of a way, which is a way to whoever lays it out */
export function partOf(way, part) {
  return 3 * way + part;
}

/**
 * Some rows of a frame, with the ways between them and the ends of ways that are cut.
 * @typedef {{pieces: Piece[], rowOf: Map<Piece, number>, ways: Way[], stubs: Map<Piece, string>}} Column
 * @typedef {{link: number, gutter: number}} Turn a way from column to column, and the column to the left of where it goes up
 */

/** The columns, from left to right. `titles`: what stands at the two ends of a way. @param {Piece[]} pieces @param {Way[]} ways @param {Map<Piece, number>} rowOf @param {number} tallest @param {(way: number) => [string, string]} titles @param {Measure} measure @returns {{all: Column[], turns: Turn[]}} */
export function columnsOf(pieces, ways, rowOf, tallest, titles, measure) {
  const columnOfRow = splitRows(rowOf, ways, tallest);
  const longest = longestWay(rowOf, ways);
  /** @type {Column[]} */
  const columns = Array.from({ length: Math.max(0, ...columnOfRow) + 1 }, () => ({ pieces: [], rowOf: new Map(), ways: [], stubs: new Map() }));
  const at = new Map(pieces.map((piece) => [piece, columns[columnOfRow[rowOf.get(piece)]]]));
  for (const piece of pieces) {
    at.get(piece).pieces.push(piece);
    at.get(piece).rowOf.set(piece, rowOf.get(piece));
  }
  const apart = /** @type {[Way, boolean][]} */ ([]); // whether it can turn: a long one downwards cannot
  for (const way of ways) {
    const tail = /** @type {Piece} */ (way.tail ?? way.head);
    const head = /** @type {Piece} */ (way.head ?? way.tail);
    const down = at.get(tail) === at.get(head) ? rowOf.get(head) - rowOf.get(tail) : 0;
    if (tail === head || down > 0 && down <= longest) at.get(tail).ways.push(wayPart(way, WHOLE, way.tail, way.head));
    else apart.push([way, down <= 0]);
  }
  const few = apart.filter(([, turns]) => turns).length <= Math.max(MOST_TURNS, TURNS_EACH * columns.length);
  const cut = apart.filter(([, turns]) => !(few && turns)).map(([way]) => way);
  const turns = apart.filter(([, turning]) => few && turning).map(([way]) => {
    at.get(way.tail).ways.push(wayPart(way, FIRST, way.tail, null));
    at.get(way.head).ways.push(wayPart(way, LAST, null, way.head));
    const [begins, ends] = [way.tail, way.head].map((end) => columnOfRow[rowOf.get(end)]);
    return { link: way.id, gutter: ends > begins ? ends - 1 : begins };
  });
  for (const part of [FIRST, LAST]) addStubs(part, cut, at, rowOf, titles, measure);
  return { all: columns, turns };
}

/** Over how many rows a way may lead, so that not all the room goes to lanes. @param {Map<Piece, number>} rowOf @param {Way[]} ways */
function longestWay(rowOf, ways) {
  const over = new Map();
  for (const { tail, head } of ways) {
    if (!tail || !head) continue;
    const rows = rowOf.get(head) - rowOf.get(tail);
    over.set(rows, (over.get(rows) ?? 0) + 1);
  }
  let lanes = 0;
  const most = over.size ? Math.max(...over.keys()) : 1;
  for (let rows = 2; rows <= most; rows += 1) {
    lanes += (over.get(rows) ?? 0) * (rows - 1);
    if (lanes > FEW_LANES + LANES_EACH * rowOf.size) return rows - 1;
  }
  return most;
}

/** @param {Way} way @param {number} part @param {Piece | null} tail @param {Piece | null} head @returns {Way} */
function wayPart(way, part, tail, head) {
  return { id: partOf(way.id, part), tail, head, label: part === LAST ? 0 : way.label, loose: way.loose };
}

/** Put stubs below the tails of ways that are cut, or above their heads. @param {number} part @param {Way[]} cut @param {Map<Piece, Column>} at @param {Map<Piece, number>} rowOf @param {(way: number) => [string, string]} titles @param {Measure} measure */
function addStubs(part, cut, at, rowOf, titles, measure) {
  /** @type {Map<Piece, Way[]>} */
  const of = new Map();
  for (const way of cut) {
    const end = /** @type {Piece} */ (part === FIRST ? way.tail : way.head);
    of.set(end, [...of.get(end) ?? [], way]);
  }
  for (const [end, ways] of of) {
    const together = ways.length > MOST_STUBS && !end.fixed;
    for (const way of together ? ways.slice(0, 1) : ways) {
      const named = together ? `${ways.length.toLocaleString("en-US")} boxes` : titles(way.id)[part === FIRST ? 1 : 0];
      const { text, width } = measure(part === FIRST ? `→ ${named}` : `${named} →`);
      const stub = new Piece(width + 4, STUB_HEIGHT);
      const column = at.get(end);
      column.pieces.push(stub);
      column.stubs.set(stub, text);
      column.rowOf.set(stub, rowOf.get(end) + (part === FIRST ? 1 : -1));
      column.ways.push(part === FIRST ? wayPart(way, part, end, stub) : wayPart(way, part, stub, end));
    }
  }
}

/** By row, the number of its column. Each is filled, and ends where the fewest ways go on. @param {Map<Piece, number>} rowOf @param {Way[]} ways @param {number} tallest @returns {number[]} */
function splitRows(rowOf, ways, tallest) {
  const heights = new Array(Math.max(-1, ...rowOf.values()) + 1).fill(0);
  for (const [piece, row] of rowOf) heights[row] = Math.max(heights[row], piece.height + ROW_GAP);
  const over = new Array(heights.length + 1).fill(0); // by row: how many ways come to it from above
  for (const { tail, head } of ways) {
    if (!tail || !head) continue;
    const [low, high] = [rowOf.get(tail), rowOf.get(head)].sort((one, other) => one - other);
    for (let row = low + 1; row <= high; row += 1) over[row] += 1;
  }
  const sum = (/** @type {number} */ from, /** @type {number} */ to) => heights.slice(from, to).reduce((all, each) => all + each, 0);
  /** @type {number[]} */
  const found = [];
  let [column, first, filled] = [0, 0, 0];
  heights.forEach((height, row) => {
    if (filled > LEAST_FILLED * tallest && row > first && filled + height > tallest) {
      let begin = row; // Not before three quarters of the column, and more stays than goes on.
      while (begin - 1 > first && sum(begin - 1, row) <= Math.min(0.25 * tallest, sum(first, begin - 1))) begin -= 1;
      let best = row;
      for (let each = row; each >= begin; each -= 1) if (over[each] < over[best]) best = each;
      first = best;
      column += 1;
      for (let each = first; each < row; each += 1) found[each] = column;
      filled = sum(first, row);
    }
    found.push(column);
    filled += height;
  });
  if (filled <= LEAST_FILLED * tallest) found.fill(Math.max(column - 1, 0), first); // a few rows do not make a column
  return found;
}
