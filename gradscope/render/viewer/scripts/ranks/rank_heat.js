/** The ranks of a merged trace by step: a row for ranks that behave alike, a column for each step. */

import { STRUCTURE_COLORS } from "../core/structures.js";
import { count, duration, number, plural } from "../core/words.js";
import { made } from "../panels/outline.js";
import { columnsOfSteps, rowsOfRanks } from "./rank_rows.js";

/** @typedef {import("../core/app.js").App} App */

const RANK_ROW = 15;
const STEPS_HEIGHT = 14;
const RANKS_WIDTH = 96;
/** The narrowest and the widest column. */
const NARROWEST_STEP = 5;
const WIDEST_STEP = 26;
const MOST_RANK_ROWS = 20;
const RANKS_SHOW = { time: "time", gradient: "norm of gradients", "non-finite": "NaN and Inf", alike: "what is alike" };

/** The chart of the summary; a click on a cell shows that rank in that step. */
export class RankHeat {
  /** @param {import("../time/timeline.js").Timeline} timeline @param {HTMLElement} panel */
  constructor(timeline, panel) {
    this.app = timeline.app;
    this.colours = timeline.colours;
    this.facts = this.app.model.facts.heat;
    this.table = this.app.model.tables.rank_steps;
    this.ranks = this.app.model.facts.ranks;
    this.what = "time";
    /** The row and the column that the keyboard is at. @type {[number, number]} */
    this.cursor = [0, 0];
    this.choice = /** @type {HTMLSelectElement} */ (made("select"));
    this.choice.setAttribute("aria-label", "What ranks and steps show");
    for (const [value, words] of Object.entries(RANKS_SHOW)) this.choice.append(new Option(words, value));
    this.choice.addEventListener("change", () => { this.what = this.choice.value; this.change(); });
    this.canvas = /** @type {HTMLCanvasElement} */ (made("canvas", "ranks"));
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.said = made("p", "soft");
    this.said.setAttribute("aria-live", "polite");
    this.legend = made("ul", "levels");
    this.title = made("p", "under");
    panel.append(made("h3", "", "Ranks by step"), this.choice, this.title, this.canvas, this.legend, this.said);
    this.listen();
    this.change();
  }

  listen() {
    const { canvas, app } = this;
    const at = (/** @type {MouseEvent} */ event) => this.cellAt(event.offsetX, event.offsetY);
    canvas.addEventListener("click", (event) => { const cell = at(event); if (cell) this.choose(cell); });
    canvas.addEventListener("pointermove", (event) => this.say(at(event)));
    canvas.addEventListener("keydown", (event) => this.key(event));
    for (const each of ["focus", "blur"]) canvas.addEventListener(each, () => this.paint());
    new ResizeObserver(() => this.lay()).observe(canvas);
    app.follow((changes) => { if (changes.has("backward") || changes.has("look")) this.paint(); });
  }

  /** Show other numbers. */
  change() {
    const { title, missing, levels } = this.facts.shows[this.what];
    this.levels = this.table.get(this.what);
    this.values = this.table.get(`${this.what}_value`);
    const seen = new Set(this.levels);
    const none = seen.size === 1 && seen.has(-1);
    this.title.textContent = none ? `Not shown: ${missing}.` : title;
    this.legend.replaceChildren(...(none ? [] : levels.filter((/** @type {[number, string]} */ [level]) => seen.has(level)).map((/** @type {[number, string]} */ [level, words]) => this.sample(level, words))));
    this.canvas.hidden = none;
    this.said.textContent = "";
    this.width = 0;
    this.lay();
  }

  /** @param {number} level @param {string} words */
  sample(level, words) {
    const item = made("li");
    const box = made("span", "chip");
    box.style.background = this.colourOf(level, true);
    box.style.borderColor = "var(--soft)";
    item.append(box, words);
    return item;
  }

  /** @param {number} level @param {boolean} [style] for CSS, instead of a canvas */
  colourOf(level, style = false) {
    const { structures, heat, alarm } = this.colours;
    if (this.what === "non-finite" && level > 1) return style ? "var(--alarm)" : alarm;
    if (this.what !== "alike" || level < 2) return style ? `var(--heat-${Math.min(level, 4)})` : heat[Math.min(level, 4)];
    const place = (level - 2) % STRUCTURE_COLORS;
    return style ? `var(--structure-${place}-line)` : structures[place].line;
  }

  /** Rows and columns for the room there is. */
  lay() {
    const width = this.canvas.clientWidth;
    if (!width || width === this.width) return;
    this.width = width;
    const steps = this.facts.steps.length;
    const most = Math.max(Math.floor((width - RANKS_WIDTH) / NARROWEST_STEP), 1);
    this.columns = columnsOfSteps(steps, most);
    this.rows = rowsOfRanks(this.levels, this.ranks, this.columns, steps, MOST_RANK_ROWS);
    this.cell = Math.min((width - RANKS_WIDTH) / this.columns.length, WIDEST_STEP);
    this.cursor = [Math.min(this.cursor[0], this.rows.length - 1), Math.min(this.cursor[1], this.columns.length - 1)];
    this.canvas.style.height = `${STEPS_HEIGHT + RANK_ROW * this.rows.length + 1}px`;
    const { title } = this.facts.shows[this.what];
    this.canvas.setAttribute("aria-label", `${title}: ${plural(this.ranks.length, "rank")} in ${plural(this.rows.length, "row")}, ${plural(steps, "step")}. Arrow keys go from cell to cell, Enter shows the rank and step.`);
    this.paint();
  }

  paint() {
    const { canvas, colours, width, rows } = this;
    if (!width || !rows || canvas.hidden) return;
    const scale = devicePixelRatio;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round((STEPS_HEIGHT + RANK_ROW * rows.length + 1) * scale);
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    this.paintHead(context);
    rows.forEach((row, at) => {
      const y = STEPS_HEIGHT + at * RANK_ROW;
      context.fillStyle = row.ranks.includes(this.app.rank) ? colours.ink : colours.soft;
      context.fillText(row.title, 0, y + RANK_ROW / 2, RANKS_WIDTH - 6);
      row.levels.forEach((level, column) => {
        if (level < 0) return;
        context.fillStyle = this.colourOf(level);
        context.fillRect(RANKS_WIDTH + column * this.cell, y + 1, Math.max(this.cell - (this.cell > 6 ? 1 : 0), 1), RANK_ROW - 2);
      });
    });
    this.paintPlaces(context);
  }

  /** The numbers of steps. @param {CanvasRenderingContext2D} context */
  paintHead(context) {
    const { colours, columns, cell } = this;
    let free = 0;
    context.fillStyle = colours.soft;
    columns.forEach(([first], column) => {
      const x = RANKS_WIDTH + column * cell;
      const text = String(this.facts.steps[first]);
      if (x < free) return;
      context.fillText(text, x, STEPS_HEIGHT / 2);
      free = x + context.measureText(text).width + 14;
    });
  }

  /** Where the page is, and where the keyboard is. @param {CanvasRenderingContext2D} context */
  paintPlaces(context) {
    const { app, colours, cell } = this;
    const box = (/** @type {number} */ row, /** @type {number} */ column) => context.strokeRect(RANKS_WIDTH + column * cell - 0.5, STEPS_HEIGHT + row * RANK_ROW + 0.5, cell, RANK_ROW - 1);
    const step = app.backward < 0 ? -1 : app.model.backwards.get("step")[app.backward];
    const column = this.columns.findIndex(([first, end]) => this.facts.steps.slice(first, end).includes(step));
    const row = this.rows.findIndex(({ ranks }) => ranks.includes(app.rank));
    context.lineWidth = 1.5;
    context.strokeStyle = colours.ink;
    if (row >= 0 && column >= 0) box(row, column);
    context.strokeStyle = colours.accent;
    if (document.activeElement === this.canvas) box(...this.cursor);
  }

  /** The row and column at a place of the chart. @param {number} x @param {number} y @returns {[number, number] | null} */
  cellAt(x, y) {
    const [row, column] = [Math.floor((y - STEPS_HEIGHT) / RANK_ROW), Math.floor((x - RANKS_WIDTH) / this.cell)];
    return row >= 0 && row < this.rows.length && column >= 0 && column < this.columns.length ? [row, column] : null;
  }

  /** The rank and the step of a cell: of several those with the highest level, of equal ones the rank shown. @param {[number, number]} cell */
  placeOf([row, column]) {
    const { ranks } = this.rows[row];
    const [first, end] = this.columns[column];
    const steps = this.facts.steps.length;
    const inOrder = ranks.includes(this.app.rank) ? [this.app.rank, ...ranks] : ranks;
    let best = { rank: inOrder[0], step: first, at: this.ranks.indexOf(inOrder[0]) * steps + first };
    for (const rank of inOrder) {
      const from = this.ranks.indexOf(rank) * steps;
      for (let step = first; step < end; step += 1) if (this.levels[from + step] > this.levels[best.at]) best = { rank, step, at: from + step };
    }
    return best;
  }

  /** @param {[number, number] | null} cell */
  say(cell) {
    if (!cell) return;
    const { rank, step, at } = this.placeOf(cell);
    const others = this.rows[cell[0]].ranks.length - 1;
    const where = `rank ${rank}${others ? ` (and ${count(others)} like it)` : ""}, step ${this.facts.steps[step]}`;
    this.said.textContent = `${where}: ${this.levels[at] < 0 ? "not recorded" : this.wordsOf(at)}`;
  }

  /** @param {number} at the place in the table */
  wordsOf(at) {
    const value = this.values?.[at] ?? 0;
    if (this.what === "time") return duration(value);
    if (this.what === "gradient") return number(value);
    if (this.what === "non-finite") return plural(value, "tensor");
    return this.levels[at] === 1 ? "in the largest group" : `in group ${this.levels[at]}`;
  }

  /** Show the rank and step of a cell. @param {[number, number]} cell */
  choose(cell) {
    const { app } = this;
    const { rank, step } = this.placeOf(cell);
    this.cursor = cell;
    this.say(cell);
    if (rank !== app.rank) app.setRank(rank);
    const found = app.model.backwardsOf(rank).find((row) => app.model.backwards.get("step")[row] === this.facts.steps[step]);
    if (found !== undefined && found !== app.backward) app.setBackward(found);
    this.paint();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    /** @type {Record<string, [number, number]>} */
    const ways = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const way = ways[event.key];
    if (!way && event.key !== "Enter") return;
    event.preventDefault();
    event.stopPropagation();
    if (!way) {
      this.choose(this.cursor);
      return;
    }
    const to = (/** @type {number} */ place, /** @type {number} */ size) => Math.min(Math.max(place, 0), size - 1);
    this.cursor = [to(this.cursor[0] + way[0], this.rows.length), to(this.cursor[1] + way[1], this.columns.length)];
    this.say(this.cursor);
    this.paint();
  }
}
