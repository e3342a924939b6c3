/** A lane for each rank over the lanes of the rank shown, on the same axis: work, waits, and collectives that belong together. */

import { plural } from "../core/words.js";

/** @typedef {import("../core/data.js").Table} Table */
/** @typedef {{begin: number, end: number}} Stretch a period of time */
/** @typedef {"forward" | "backward" | "optimizer" | "waiting"} RankWork */

const MOST_RANK_LANES = 16;
const RANK_LANE = 14;
const KEY_HEIGHT = 16;
/** @type {RankWork[]} */
const RANK_WORK = ["forward", "backward", "optimizer", "waiting"];

/** The lanes, and the button that shows them. */
export class RankLanes {
  /** @param {import("../time/timeline.js").Timeline} timeline */
  constructor(timeline) {
    const { app } = timeline;
    this.timeline = timeline;
    this.app = app;
    this.canvas = /** @type {HTMLCanvasElement} */ (document.getElementById("rank-lanes"));
    this.button = /** @type {HTMLButtonElement} */ (document.getElementById("all-ranks"));
    this.button.hidden = !app.model.facts.ranks.length;
    /** @type {Map<number, Record<RankWork, Stretch[]>> | null} */
    this.work = null;
    /** @type {number[]} the ranks that have a lane */
    this.ranks = [];
    this.button.addEventListener("click", () => this.toggle());
    this.canvas.addEventListener("click", (event) => this.choose(event.offsetY));
    app.follow((changes) => {
      if (this.canvas.hidden) return;
      if (changes.has("backward")) this.lay();
      if (["backward", "look", "window", "event", "selection"].some((each) => changes.has(/** @type {any} */ (each)))) this.paint();
    });
  }

  toggle() {
    this.canvas.hidden = !this.canvas.hidden;
    this.button.setAttribute("aria-pressed", String(!this.canvas.hidden));
    if (this.canvas.hidden) return;
    this.work ??= this.collect();
    this.lay();
    this.paint();
  }

  /** What each rank did and when, from the tables of the page. */
  collect() {
    const { tables, facts } = this.app.model;
    /** @type {Map<number, Record<RankWork, Stretch[]>>} */
    const found = new Map(facts.ranks.map((/** @type {number} */ rank) => [rank, { forward: [], backward: [], optimizer: [], waiting: [] }]));
    const { threads } = tables;
    const rankOfThread = new Map([...threads.get("id")].map((id, row) => [id, threads.get("rank")[row]]));
    const add = (/** @type {RankWork} */ what, /** @type {number} */ rank, /** @type {number} */ begin, /** @type {number} */ end) => {
      if (end >= begin) found.get(rank)?.[what].push({ begin, end });
    };
    const { backwards, spans, waits } = tables;
    const moments = (/** @type {Table} */ table) => [table.get("begin"), table.get("end")];
    const [began, ended] = moments(backwards);
    for (const row of began.keys()) add("backward", backwards.get("rank")[row], began[row], ended[row]);
    const [spanBegan, spanEnded] = moments(spans);
    for (const row of spanBegan.keys()) if (spans.text("phase", row).startsWith("optimizer")) add("optimizer", rankOfThread.get(spans.get("thread")[row]) ?? -1, spanBegan[row], spanEnded[row]);
    for (const row of waits.get("begin").keys()) add("waiting", waits.get("rank")[row], waits.get("begin")[row], waits.get("begin")[row] + waits.get("ns")[row]);
    const { drawn, begin, end, thread } = this.timeline.bars.calls;
    for (let call = 0; call < drawn; call += 1) add("forward", rankOfThread.get(thread[call]) ?? -1, begin[call], end[call]);
    return found;
  }

  /** Choose the ranks: of many those that waited or were waited for longest in the step, and the one shown. */
  lay() {
    const { app, canvas } = this;
    const { tables, facts } = app.model;
    const step = app.backward < 0 ? -1 : app.model.backwards.get("step")[app.backward];
    const weight = new Map([[app.rank, Infinity]]);
    const { waits } = tables;
    for (const row of waits.get("ns").keys()) {
      if (step >= 0 && waits.get("step")[row] !== step) continue;
      for (const rank of [waits.get("rank")[row], waits.get("on")[row]]) weight.set(rank, (weight.get(rank) ?? 0) + waits.get("ns")[row]);
    }
    const heaviest = [...facts.ranks].sort((one, other) => (weight.get(other) ?? 0) - (weight.get(one) ?? 0));
    this.ranks = heaviest.slice(0, MOST_RANK_LANES).sort((one, other) => one - other);
    canvas.style.height = `${this.ranks.length * RANK_LANE + KEY_HEIGHT}px`;
    const left = facts.ranks.length - this.ranks.length;
    canvas.setAttribute("aria-label", `A lane for each of ${plural(this.ranks.length, "rank")}${left ? `, those with the longest waits of ${facts.ranks.length}` : ""}: forward, backward, optimizer, waits for other ranks, and collectives that belong together. The menu of ranks shows another one.`);
  }

  paint() {
    const { canvas, ranks } = this;
    const { axis, colours } = this.timeline;
    const height = ranks.length * RANK_LANE + KEY_HEIGHT;
    canvas.style.width = `${axis.width}px`;
    const scale = devicePixelRatio;
    canvas.width = Math.round(axis.width * scale);
    canvas.height = Math.round(height * scale);
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    const paints = this.paints(context);
    ranks.forEach((rank, at) => {
      const y = at * RANK_LANE;
      context.textAlign = "right";
      context.fillStyle = rank === this.app.rank ? colours.ink : colours.soft;
      context.fillText(`rank ${rank}`, axis.left - 8, y + RANK_LANE / 2);
      for (const what of RANK_WORK) {
        context.fillStyle = paints[what];
        for (const { begin, end } of this.work?.get(rank)?.[what] ?? []) {
          if (end < axis.from || begin > axis.to) continue;
          const [from, to] = [Math.max(axis.x(begin), axis.left), Math.min(axis.x(end), axis.right)];
          context.fillRect(from, y + 2, Math.max(to - from, 1), RANK_LANE - 4);
        }
      }
    });
    this.join(context);
    this.key(context, paints);
  }

  /** What each kind of work is filled with. @param {CanvasRenderingContext2D} context @returns {Record<RankWork, string | CanvasPattern>} */
  paints(context) {
    const { colours } = this.timeline;
    return { forward: colours.soft, backward: colours.accent, optimizer: colours.ink, waiting: hatched(context, colours.alarm) };
  }

  /** A thin line through the lanes where the last rank entered a collective, and a mark where each one did. @param {CanvasRenderingContext2D} context */
  join(context) {
    const { axis, colours } = this.timeline;
    const { exchanges } = this.app.model.tables;
    if (!exchanges) return;
    const [group, rank, begin] = ["group", "rank", "begin"].map((name) => exchanges.get(name));
    context.fillStyle = colours.ink;
    for (let first = 0; first < group.length;) {
      let last = first;
      let end = first;
      for (; end < group.length && group[end] === group[first]; end += 1) if (begin[end] > begin[last]) last = end;
      const lanes = [];
      for (let row = first; row < end; row += 1) if (this.ranks.includes(rank[row])) lanes.push([this.ranks.indexOf(rank[row]), begin[row]]);
      first = end;
      const t = begin[last];
      if (lanes.length < 2 || t < axis.from || t > axis.to) continue;
      const places = lanes.map(([lane]) => lane);
      const [top, bottom] = [Math.min(...places) * RANK_LANE, (Math.max(...places) + 1) * RANK_LANE];
      context.fillRect(Math.round(axis.x(t)), top + 1, 1, bottom - top - 2);
      for (const [lane, entered] of lanes) if (entered >= axis.from) context.fillRect(Math.round(axis.x(entered)) - 1, lane * RANK_LANE + RANK_LANE / 2 - 1, 3, 3);
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {Record<RankWork, string | CanvasPattern>} paints */
  key(context, paints) {
    const { axis, colours } = this.timeline;
    const y = this.ranks.length * RANK_LANE + KEY_HEIGHT / 2;
    let x = axis.left;
    context.textAlign = "left";
    const entry = (/** @type {string} */ words, /** @type {string | CanvasPattern} */ paint, /** @type {number} */ width) => {
      context.fillStyle = paint;
      context.fillRect(x, y - 4, width, 8);
      context.fillStyle = colours.soft;
      context.fillText(words, x + width + 4, y);
      x += context.measureText(words).width + width + 18;
    };
    for (const what of RANK_WORK) entry(what === "waiting" ? "waiting for another rank (inferred)" : what, paints[what], 12);
    entry("the last rank entered a collective", colours.ink, 1);
    const left = this.app.model.facts.ranks.length - this.ranks.length;
    if (left) entry(`${plural(left, "other rank")} not shown`, colours.page, 0);
  }

  /** Show the rank of a lane. @param {number} y */
  choose(y) {
    const rank = this.ranks[Math.floor(y / RANK_LANE)];
    if (rank !== undefined && rank !== this.app.rank) this.app.setRank(rank);
  }
}

/** Slanted lines. @param {CanvasRenderingContext2D} context @param {string} colour @returns {CanvasPattern | string} */
function hatched(context, colour) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const drawn = /** @type {CanvasRenderingContext2D} */ (tile.getContext("2d"));
  drawn.strokeStyle = colour;
  drawn.lineWidth = 1.2;
  drawn.beginPath();
  for (const from of [-6, 0, 6]) {
    drawn.moveTo(from, 6);
    drawn.lineTo(from + 6, 0);
  }
  drawn.stroke();
  return context.createPattern(tile, "repeat") ?? colour;
}
