/** Straightens lanes and chains, after pieces have their places. The twin of scene/layout/straight.py. */

/** @typedef {import("./layered.js").Piece} Piece @typedef {import("./layered.js").Step} Step */

export const BETWEEN = 18;
const BESIDE_LANE = 8;

/** The room to the right of a piece. @param {Piece} piece */
export function gapAfter(piece) {
  return piece.lane ? BESIDE_LANE : BETWEEN;
}

/** Put each chain of pieces in line, as far as there is room, without changing the order of rows. @param {Piece[][]} rows @param {Map<number, Step[]>} steps */
export function straighten(rows, steps) {
  /** @type {Map<Piece, [Piece | undefined, Piece | undefined]>} */
  const beside = new Map();
  for (const row of rows) row.forEach((piece, place) => beside.set(piece, [row[place - 1], row[place + 1]]));
  for (const chain of chainsOf([...steps.values()].flat())) {
    let run = /** @type {[Piece, number][]} */ ([]);
    let [low, high] = [-Infinity, Infinity];
    for (const [piece, offset] of chain) {
      const [left, right] = roomOf(piece, beside.get(piece)).map((each) => each - offset);
      if (run.length && Math.max(low, left) > Math.min(high, right)) {
        alignRun(run, low, high);
        [run, low, high] = [[], -Infinity, Infinity];
      }
      run.push([piece, offset]);
      [low, high] = [Math.max(low, left), Math.min(high, right)];
    }
    alignRun(run, low, high);
  }
}

/** @param {[Piece, number][]} run @param {number} low @param {number} high */
function alignRun(run, low, high) {
  const places = run.map(([piece, offset]) => piece.x - offset).sort((one, other) => one - other);
  const place = Math.min(Math.max(places[places.length >> 1], low), high);
  for (const [piece, offset] of run) piece.x = place + offset;
}

/** Pieces that follow each other alone, with their distance to the first. @param {Step[]} steps @returns {[Piece, number][][]} */
function chainsOf(steps) {
  const [leaving, coming] = [new Map(), new Map()];
  for (const { upper, lower } of steps) {
    leaving.set(upper, (leaving.get(upper) ?? 0) + 1);
    coming.set(lower, (coming.get(lower) ?? 0) + 1);
  }
  const after = new Map();
  for (const step of steps) if (leaving.get(step.upper) === 1 && coming.get(step.lower) === 1) after.set(step.upper, step);
  const inner = new Set([...after.values()].map((step) => step.lower));
  const found = [];
  for (const { upper: first } of steps) {
    if (!after.has(first) || inner.has(first)) continue;
    const chain = /** @type {[Piece, number][]} */ ([[first, 0]]);
    for (let step = after.get(first); step; step = after.get(step.lower)) {
      chain.push([step.lower, chain[chain.length - 1][1] + step.upper.portsOut.get(step.way.id) - step.lower.portsIn.get(step.way.id)]);
    }
    found.push(chain);
  }
  return found;
}

/** The places of a piece that keep its distance from its neighbors. @param {Piece} piece @param {[Piece | undefined, Piece | undefined]} beside */
function roomOf(piece, [before, after]) {
  const low = before ? before.x + before.width + gapAfter(before) : -Infinity;
  const high = after ? after.x - gapAfter(piece) - piece.width : Infinity;
  return [Math.min(low, piece.x), Math.max(high, piece.x)];
}
