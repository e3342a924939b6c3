/** The memory kept for backward: over time, who holds it at a moment, and what was never freed. */

import { link, listed, made } from "./outline.js";
import { byteCount, duration, plural } from "../core/words.js";

/** @typedef {import("../core/app.js").App} App */

const SERIES = 6;
const CHART_HEIGHT = 130;
const ROWS_SHOWN = 12;
const ABOVE = 6;
/** The most groups that modules are summed up in, before fewer parts of their paths are used. */
const MOST_GROUPS = 10;
const ELSEWHERE = "outside of modules";

/** @typedef {{name: string, rows: number[], most: number}} Holder a module or a line, and the periods in which it holds memory */

/** The list on the left. */
export class Memory {
  /** @param {import("../time/timeline.js").Timeline} timeline */
  constructor(timeline) {
    const { app, colours } = timeline;
    this.timeline = timeline;
    this.app = app;
    this.colours = colours;
    this.element = /** @type {HTMLElement} */ (document.getElementById("memory-panel"));
    this.table = app.model.tables.holdings;
    this.by = "module";
    if (!this.table.length) {
      this.nothing();
      return;
    }
    app.follow((changes) => {
      if (this.element.hidden) return;
      if (!this.levels || this.rank !== app.rank) this.begin();
      else if (changes.has("event") && this.rows.length) this.moment();
      if (!this.rows.length) return;
      if (changes.has("event") || changes.has("look")) this.paint();
    });
  }

  nothing() {
    this.element.append(made("p", "soft", this.app.model.tables.saved.length ? "No saved tensor is on this page." : "Nothing was saved for a backward, or it was not recorded."));
  }

  /** Sum up what is held, when it is first asked for: by the rank shown, as each process has its own memory. */
  begin() {
    const { app } = this;
    const node = this.table.get("node");
    this.rank = app.rank;
    this.from = this.table.get("begin");
    this.until = this.table.get("end");
    this.bytes = this.table.get("bytes");
    this.rows = [...this.bytes.keys()].filter((row) => app.rank < 0 || app.model.rankOf(node[row]) === app.rank);
    this.levels = this.levelsOf(this.rows);
    this.element.replaceChildren();
    if (!this.rows.length) {
      this.nothing();
      return;
    }
    this.peak = this.levels.reduce((most, each) => (each.bytes > most.bytes ? each : most));
    this.build();
    this.group();
    new ResizeObserver(() => this.paint()).observe(this.canvas);
  }

  build() {
    const { element } = this;
    const choice = /** @type {HTMLSelectElement} */ (made("select"));
    choice.setAttribute("aria-label", "Sum up saved memory by");
    choice.append(new Option("by module", "module"), new Option("by line", "line"));
    choice.value = this.by;
    choice.addEventListener("change", () => { this.by = choice.value; this.group(); });
    this.canvas = /** @type {HTMLCanvasElement} */ (made("canvas", "memory"));
    this.canvas.setAttribute("role", "img");
    this.canvas.style.height = `${CHART_HEIGHT}px`;
    this.canvas.addEventListener("click", (event) => this.goTo(this.timeAt(event.offsetX)));
    this.now = made("div");
    const head = made("p", "under", `Saved for backward${this.rank < 0 ? "" : ` on rank ${this.rank}`}, each storage counted once, all steps: at most ${byteCount(this.peak.bytes)}. `);
    head.append(link("go to the peak", () => this.goTo(this.peak.t)));
    element.append(head, choice, this.canvas, this.now);
    element.append(this.never());
  }

  /** What each period belongs to: the line or the module of the node that saved first. @param {number} row @param {number} depth */
  nameOf(row, depth) {
    const { model } = this.app;
    const node = this.table.get("node")[row];
    if (this.by === "line") {
      const frame = model.frameOf(node);
      return frame < 0 ? "unknown line" : model.place(frame);
    }
    return model.nodes.text("module", node).split(".").slice(0, depth).join(".") || ELSEWHERE;
  }

  /** How many parts of the paths of modules are used: as many as leave few groups. */
  get depth() {
    let depth = 1;
    while (depth < 6) {
      const names = new Set(this.rows.map((row) => this.nameOf(row, depth + 1)));
      if (names.size > MOST_GROUPS) break;
      depth += 1;
    }
    return depth;
  }

  /** Sum up by module or by line, the largest holders first. */
  group() {
    const depth = this.by === "module" ? this.depth : 0;
    /** @type {Map<string, Holder>} */
    const found = new Map();
    for (const row of this.rows) {
      const name = this.nameOf(row, depth);
      if (!found.has(name)) found.set(name, { name, rows: [], most: 0 });
      /** @type {Holder} */ (found.get(name)).rows.push(row);
    }
    for (const holder of found.values()) holder.most = this.levelsOf(holder.rows).reduce((most, each) => Math.max(most, each.bytes), 0);
    this.holders = [...found.values()].sort((one, other) => other.most - one.most);
    this.series = this.holders.slice(0, SERIES).map((holder) => this.levelsOf(holder.rows));
    if (this.holders.length > SERIES) this.series.push(this.levelsOf(this.holders.slice(SERIES).flatMap((holder) => holder.rows)));
    this.moment();
    this.paint();
  }

  /** The bytes that some periods hold, from each of these moments on. @param {number[]} rows @returns {{t: number, bytes: number}[]} */
  levelsOf(rows) {
    const changes = [];
    for (const row of rows) {
      changes.push([this.from[row], this.bytes[row]]);
      if (this.until[row] >= 0) changes.push([this.until[row], -this.bytes[row]]);
    }
    changes.sort((one, other) => one[0] - other[0] || one[1] - other[1]);
    const found = [];
    let held = 0;
    for (const [t, change] of changes) {
      held += change;
      const last = found[found.length - 1];
      if (last && last.t === t) last.bytes = held;
      else found.push({ t, bytes: held });
    }
    return found;
  }

  // At a moment --------------------------------------------------------------------------------

  /** The moment of the playhead; at the end of what is shown, that of the peak. */
  get t() {
    const { app } = this;
    const { events } = app.model;
    const [, last] = app.events;
    const isEnd = app.event >= last && app.t === app.timeOf(last);
    return isEnd || !events.length ? this.peak.t : app.t;
  }

  /** @param {number} row @param {number} t */
  isHeld(row, t) {
    return this.from[row] <= t && (this.until[row] < 0 || this.until[row] > t);
  }

  /** Who holds how much at the moment. */
  moment() {
    const { t } = this;
    const held = this.holders.map((holder) => {
      const rows = holder.rows.filter((row) => this.isHeld(row, t));
      return { holder, rows, bytes: rows.reduce((sum, row) => sum + this.bytes[row], 0) };
    }).filter(({ bytes }) => bytes > 0).sort((one, other) => other.bytes - one.bytes);
    const whole = held.reduce((sum, { bytes }) => sum + bytes, 0);
    const { least, most } = this.timeline.axis;
    const at = t === this.peak.t ? "at the peak" : "at the playhead";
    this.now.replaceChildren(made("h2", "section", `${byteCount(whole)} ${at}, ${t >= least && t <= most ? `at ${duration(t - least)}` : "in another step"}`));
    this.now.append(listed(held, ({ holder, rows, bytes }) => [
      this.colourOf(holder), this.toHolder(holder, rows),
      made("span", "much", `${byteCount(bytes)} · ${(100 * bytes / whole).toFixed(0)}%`),
    ], ROWS_SHOWN, "row"));
  }

  /** @param {Holder} holder */
  colourOf(holder) {
    const place = this.holders.indexOf(holder);
    const square = made("span", "chip");
    square.style.background = place < SERIES ? `var(--lane-${place})` : "var(--folded-fill)";
    square.style.borderColor = place < SERIES ? `var(--lane-${place})` : "var(--folded-line)";
    return square;
  }

  /** A link to the largest of what a holder holds. @param {Holder} holder @param {number[]} rows */
  toHolder(holder, rows) {
    const largest = rows.reduce((most, row) => (this.bytes[row] > this.bytes[most] ? row : most), rows[0]);
    const node = this.table.get("node")[largest];
    const button = link(holder.name.replace(/^.*[\\/]/, ""), () => {
      const group = this.by === "module" ? this.app.groupAt(holder.name) : -1;
      if (group >= 0) this.app.showGroup(group);
      else {
        this.app.selectNode(node);
        this.app.unfold(node);
      }
    });
    button.title = `${holder.name}: ${plural(rows.length, "tensor")}, the largest of ${byteCount(this.bytes[largest])}`;
    return button;
  }

  /** What no backward released, and nothing freed. */
  never() {
    const { app } = this;
    const rows = this.rows.filter((row) => this.until[row] < 0);
    const box = made("div");
    box.append(made("h2", "section", rows.length ? `${byteCount(rows.reduce((sum, row) => sum + this.bytes[row], 0))} still held at the end of the trace` : "Never freed"));
    if (!rows.length) box.append(made("p", "soft", "Nothing: each saved tensor was released by a backward, or freed."));
    rows.sort((one, other) => this.bytes[other] - this.bytes[one]);
    box.append(listed(rows, (row) => {
      const node = this.table.get("node")[row];
      const frame = app.model.frameOf(node);
      return [
        link(app.model.title(node), () => { app.selectNode(node); app.unfold(node); }),
        made("span", "soft", frame >= 0 ? ` ${app.model.shortPlace(frame)}` : ""), made("span", "much", byteCount(this.bytes[row])),
      ];
    }, ROWS_SHOWN, "row"));
    return box;
  }

  // The chart ----------------------------------------------------------------------------------

  /** @returns {[number, number]} */
  get extent() {
    const first = this.levels[0].t;
    const { events } = this.app.model;
    const last = Math.max(this.levels[this.levels.length - 1].t, events.length ? events.get("t")[events.length - 1] : 0);
    return [first, Math.max(last, first + 1)];
  }

  /** @param {number} x */
  timeAt(x) {
    const [from, to] = this.extent;
    return from + x / this.canvas.clientWidth * (to - from);
  }

  /** Put the playhead at a moment, and show its step. @param {number} t */
  goTo(t) {
    this.timeline.moment.reach(t);
  }

  paint() {
    const { canvas, colours } = this;
    const width = canvas.clientWidth;
    if (!width || this.element.hidden) return;
    const scale = devicePixelRatio;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(CHART_HEIGHT * scale);
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    context.setTransform(scale, 0, 0, scale, 0, 0);
    const [from, to] = this.extent;
    const x = (/** @type {number} */ t) => (t - from) / (to - from) * width;
    const y = (/** @type {number} */ bytes) => CHART_HEIGHT - 1 - bytes / this.peak.bytes * (CHART_HEIGHT - ABOVE - 1);
    const moments = this.moments(Math.ceil(width) + 1, x);
    const base = new Float64Array(moments.length);
    this.series.forEach((levels, place) => {
      const tops = this.added(base, levels, moments);
      context.beginPath();
      context.moveTo(0, y(base[0]));
      tops.forEach((top, at) => context.lineTo(at, y(top)));
      for (let at = base.length - 1; at >= 0; at -= 1) context.lineTo(at, y(base[at]));
      context.fillStyle = place < SERIES ? colours.lanes[place] : colours.folded.line;
      context.globalAlpha = 0.75;
      context.fill();
      context.globalAlpha = 1;
      base.set(tops);
    });
    context.strokeStyle = colours.group.line;
    context.strokeRect(0.5, 0.5, width - 1, CHART_HEIGHT - 1);
    context.fillStyle = colours.ink;
    context.fillRect(x(this.t) - 0.75, 0, 1.5, CHART_HEIGHT);
    canvas.setAttribute("aria-label", `Saved memory over time, ${this.by === "module" ? "by module" : "by line"}: at most ${byteCount(this.peak.bytes)} at ${duration(this.peak.t)}`);
  }

  /** For each pixel the moment at which most was held. @param {number} pixels @param {(t: number) => number} x */
  moments(pixels, x) {
    const found = new Float64Array(pixels);
    let at = -1;
    for (let pixel = 0; pixel < pixels; pixel += 1) {
      let best = Math.max(at, 0);
      while (at + 1 < this.levels.length && x(this.levels[at + 1].t) <= pixel) {
        at += 1;
        if (this.levels[at].bytes > this.levels[best].bytes || x(this.levels[best].t) <= pixel - 1) best = at;
      }
      found[pixel] = at < 0 ? this.levels[0].t - 1 : this.levels[best].t;
    }
    return found;
  }

  /** The tops of an area above others. @param {Float64Array} base @param {{t: number, bytes: number}[]} levels @param {Float64Array} moments */
  added(base, levels, moments) {
    let at = -1;
    return base.map((under, pixel) => {
      while (at + 1 < levels.length && levels[at + 1].t <= moments[pixel]) at += 1;
      while (at >= 0 && levels[at].t > moments[pixel]) at -= 1;
      return under + (at < 0 ? 0 : levels[at].bytes);
    });
  }
}
