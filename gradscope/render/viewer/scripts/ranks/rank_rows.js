/** Which ranks share a row, and which steps a column. */

import { count } from "../core/words.js";

/** @typedef {{title: string, ranks: number[], levels: number[]}} RankRow ranks with the same levels, or the rest */

/** Columns of equally many steps, as few as needed: their first step, and the one after the last. @param {number} steps @param {number} most @returns {[number, number][]} */
export function columnsOfSteps(steps, most) {
  const width = Math.ceil(steps / most);
  return Array.from({ length: Math.ceil(steps / width) }, (_, at) => [at * width, Math.min((at + 1) * width, steps)]);
}

/** Ranks with the same levels in a row; if there are too many rows, the lowest ones share the last. @param {ArrayLike<number>} levels of all ranks in turn @param {number[]} ranks @param {[number, number][]} columns @param {number} steps @param {number} most @returns {RankRow[]} */
export function rowsOfRanks(levels, ranks, columns, steps, most) {
  /** @type {Map<string, RankRow>} */
  const found = new Map();
  ranks.forEach((rank, place) => {
    const seen = columns.map(([first, end]) => {
      let highest = -1;
      for (let step = first; step < end; step += 1) highest = Math.max(highest, levels[place * steps + step]);
      return highest;
    });
    const key = seen.join();
    const row = found.get(key) ?? { title: "", ranks: [], levels: seen };
    row.ranks.push(rank);
    found.set(key, row);
  });
  let rows = [...found.values()];
  /** @type {RankRow[]} */
  let rest = [];
  if (rows.length > most) {
    const largest = rows.reduce((one, other) => (other.ranks.length > one.ranks.length ? other : one));
    const height = (/** @type {RankRow} */ row) => Math.max(...row.levels) * 1e6 + row.levels.reduce((sum, level) => sum + level, 0);
    const others = rows.filter((row) => row !== largest).sort((one, other) => height(other) - height(one));
    rest = others.slice(most - 2);
    const kept = new Set([largest, ...others.slice(0, most - 2)]);
    rows = rows.filter((row) => kept.has(row));
  }
  for (const row of rows) row.title = ranksNamed(row.ranks);
  if (rest.length) rows.push(togetherIn(rest));
  return rows;
}

/** One row for several, with the highest levels. @param {RankRow[]} rows @returns {RankRow} */
function togetherIn(rows) {
  const ranks = rows.flatMap((row) => row.ranks).sort((one, other) => one - other);
  return { title: `${count(ranks.length)} others`, ranks, levels: rows[0].levels.map((_, at) => Math.max(...rows.map((row) => row.levels[at]))) };
}

/** As in "rank 1" or "ranks 0, 2–5". @param {number[]} ranks */
export function ranksNamed(ranks) {
  /** @type {[number, number][]} */
  const runs = [];
  for (const rank of ranks) {
    const last = runs[runs.length - 1];
    if (last && last[1] === rank - 1) last[1] = rank;
    else runs.push([rank, rank]);
  }
  const words = runs.map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`)).join(", ");
  if (ranks.length === 1) return `rank ${words}`;
  return words.length > 14 ? `${count(ranks.length)} ranks` : `ranks ${words}`;
}
