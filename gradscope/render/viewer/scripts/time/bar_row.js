/** Rows of bars that do not overlap, in order, so that any moment is found by binary search. */

/** @typedef {ArrayLike<number>} Numbers */

/** Bars of one kind on one thread, at one depth. */
export class BarRow {
  /** @param {number[]} ids @param {Numbers} begin by id @param {Numbers} end by id */
  constructor(ids, begin, end) {
    const { length } = ids;
    this.length = length;
    this.ids = new Int32Array(length);
    this.begin = new Float64Array(length);
    this.end = new Float64Array(length);
    /** The time that all bars before each take. */
    this.sums = new Float64Array(length + 1);
    for (let at = 0; at < length; at += 1) {
      this.ids[at] = ids[at];
      this.begin[at] = begin[ids[at]];
      this.end[at] = end[ids[at]];
      this.sums[at + 1] = this.sums[at] + this.end[at] - this.begin[at];
    }
  }

  /** The first bar that ends after a moment, or is there a moment itself. @param {number} t */
  firstFrom(t) {
    const at = above(this.end, t);
    return at > 0 && this.end[at - 1] === t && this.begin[at - 1] === t ? at - 1 : at;
  }

  /** The number of bars that have begun at a moment. @param {number} t */
  begunBy(t) {
    return above(this.begin, t);
  }

  /** The bar that a moment lies in; -1 for none. @param {number} t */
  at(t) {
    const last = this.begunBy(t) - 1;
    return last >= 0 && t < this.end[last] ? last : -1;
  }

  /** The time that bars take up to a moment. @param {number} t */
  busyUntil(t) {
    const begun = this.begunBy(t);
    return begun ? this.sums[begun] - Math.max(this.end[begun - 1] - t, 0) : 0;
  }

  /** The time that bars take in a period. @param {number} from @param {number} to */
  busy(from, to) {
    return this.busyUntil(to) - this.busyUntil(from);
  }

  /** The bars with a part in a period: the first, and the one after the last. @param {number} from @param {number} to @returns {[number, number]} */
  range(from, to) {
    const first = this.firstFrom(from);
    return [first, Math.max(this.begunBy(to), first)];
  }
}

/** The number of elements up to a value, in a sorted column. @param {Float64Array} column @param {number} value */
function above(column, value) {
  let [low, high] = [0, column.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (column[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Rows of bars in which inner bars lie below those around them.
 * @param {number[]} ids @param {Numbers} begin by id @param {Numbers} end by id @returns {BarRow[]} the outermost first
 */
export function nestedRows(ids, begin, end) {
  const after = (/** @type {number} */ one, /** @type {number} */ other) => begin[one] - begin[other] || end[other] - end[one];
  let sorted = true;
  for (let at = 1; at < ids.length && sorted; at += 1) sorted = after(ids[at - 1], ids[at]) <= 0;
  if (!sorted) ids = [...ids].sort(after);
  /** @type {number[][]} */
  const rows = [];
  const ends = /** @type {number[]} */ ([]);
  for (const id of ids) {
    let depth = ends.length;
    while (depth > 0 && ends[depth - 1] <= begin[id]) depth -= 1;
    ends.length = depth;
    ends.push(end[id]);
    (rows[depth] ??= []).push(id);
  }
  return rows.map((row) => new BarRow(row, begin, end));
}

/** One row of the time that any bar of several rows takes. @param {BarRow[]} rows @returns {BarRow} */
export function unionOf(rows) {
  if (rows.length === 1) return rows[0];
  const begin = /** @type {number[]} */ ([]);
  const end = /** @type {number[]} */ ([]);
  const next = rows.map(() => 0);
  for (;;) {
    let first = -1;
    for (let row = 0; row < rows.length; row += 1) {
      if (next[row] < rows[row].length && (first < 0 || rows[row].begin[next[row]] < rows[first].begin[next[first]])) first = row;
    }
    if (first < 0) break;
    const [from, to] = [rows[first].begin[next[first]], rows[first].end[next[first]]];
    next[first] += 1;
    if (end.length && from <= end[end.length - 1]) end[end.length - 1] = Math.max(end[end.length - 1], to);
    else [begin[begin.length], end[end.length]] = [from, to];
  }
  return new BarRow([...begin.keys()], begin, end);
}

/** The bars of a row without the time that those of another one take. @param {BarRow} row @param {BarRow} other @returns {BarRow} */
export function without(row, other) {
  if (!other.length || !row.length) return row;
  const begin = /** @type {number[]} */ ([]);
  const end = /** @type {number[]} */ ([]);
  for (let at = 0; at < row.length; at += 1) {
    let from = row.begin[at];
    for (let cut = other.firstFrom(from); cut < other.length && other.begin[cut] < row.end[at]; cut += 1) {
      if (other.begin[cut] > from) [begin[begin.length], end[end.length]] = [from, other.begin[cut]];
      from = Math.max(from, other.end[cut]);
    }
    if (from < row.end[at] || row.begin[at] === row.end[at]) [begin[begin.length], end[end.length]] = [from, row.end[at]];
  }
  return new BarRow([...begin.keys()], begin, end);
}
