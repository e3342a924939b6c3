/** Paints rows of bars: single bars where they are wide enough, blocks of several where they are not. */

/** @typedef {import("./bar_row.js").BarRow} BarRow */
/** @typedef {import("./axis.js").Axis} Axis */

/** The least width of a bar with an outline of its own, in pixels. */
export const WIDE = 3;
const WIDEST_BLOCK = 6;

/** What stands in a row: the bars from first to last, as one bar or block. @typedef {{first: number, last: number, x0: number, x1: number}} Piece */

/**
 * The bars and blocks of a row as they are painted: as many as fit next to each other, however many bars there are.
 * @param {BarRow} row @param {Axis} axis @returns {Piece[]}
 */
export function pieces(row, axis) {
  const found = [];
  const { begin, end, length } = row;
  const x = (/** @type {number} */ t) => axis.x(t);
  let at = row.firstFrom(axis.from);
  while (at < length && begin[at] <= axis.to) {
    const [x0, x1] = [x(begin[at]), x(end[at])];
    let last = at;
    let right = Math.max(x1, x0 + 1);
    while (x1 - x0 < WIDE && right - x0 < WIDEST_BLOCK) {
      let next = row.begunBy(axis.timeAt(right + 0.5)) - 1;
      if (next > last && x(end[next]) - x(begin[next]) >= WIDE) next -= 1;
      if (next <= last) break;
      last = next;
      right = Math.max(right, x(end[last]));
    }
    found.push({ first: at, last, x0, x1: right });
    at = last + 1;
  }
  return found;
}

/** How much of a block is taken by its bars. @param {BarRow} row @param {Piece} piece @param {Axis} axis @returns {number} up to 1 */
export function shareOf(row, piece, axis) {
  const length = (piece.x1 - piece.x0) * (axis.to - axis.from) / (axis.right - axis.left);
  return Math.min((row.sums[piece.last + 1] - row.sums[piece.first]) / length, 1);
}

const SAMPLES = 8;

/** The longest of a few bars of a block. @param {BarRow} row @param {Piece} piece @returns {number} its place */
export function longestOf(row, piece) {
  const step = Math.max(1, Math.floor((piece.last - piece.first) / SAMPLES));
  let best = piece.first;
  for (let at = piece.first; at <= piece.last; at += step) if (row.end[at] - row.begin[at] > row.end[best] - row.begin[best]) best = at;
  return best;
}

/** Text that fits, and where it begins: at the visible part of its bar. */
export class Labels {
  /** @param {CanvasRenderingContext2D} context */
  constructor(context) {
    this.context = context;
    /** @type {Map<string, number>} */
    this.widths = new Map();
  }

  /** @param {string} text */
  width(text) {
    let width = this.widths.get(text);
    if (width === undefined) {
      width = this.context.measureText(text).width;
      if (this.widths.size > 20_000) this.widths.clear();
      this.widths.set(text, width);
    }
    return width;
  }

  /** @param {string} text @param {number} room in pixels @returns {string} shortened so that it fits */
  fitted(text, room) {
    const width = this.width(text);
    if (width <= room) return text;
    let length = Math.floor(text.length * (room - 8) / width);
    while (length > 0 && this.width(`${text.slice(0, length)}…`) > room) length -= 1;
    return length > 0 ? `${text.slice(0, length)}…` : "";
  }
}
