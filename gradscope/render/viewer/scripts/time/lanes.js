/** Paints the lanes of the timeline. */

import { byteCount, count } from "../core/words.js";
import { Labels, WIDE, longestOf, pieces, shareOf } from "./bar_painter.js";
import { RULER } from "./lane_list.js";

/** @typedef {import("./lane_list.js").Lane} Lane */
/** @typedef {import("./bar_painter.js").Piece} Piece */

const LEAST_LABEL = 22;
const INSET = 4;

/** Paints the lanes that a timeline contains. */
export class Lanes {
  /** @param {import("./timeline.js").Timeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
    this.app = timeline.app;
    this.axis = timeline.axis;
    this.bars = timeline.bars;
    this.colours = timeline.colours;
    this.canvas = timeline.canvas;
    this.context = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    this.labels = new Labels(this.context);
    this.height = 0;
    this.top = 0;
    this.kept = document.createElement("canvas");
    /** What each lane shows, for the pointer. @type {Map<Lane, Piece[]>} */
    this.painted = new Map();
    /** Where the labels of bars stand. @type {{text: string, x: number, y: number}[]} */
    this.texts = [];
  }

  paint() {
    const { canvas, context, colours, timeline, axis } = this;
    const { width } = axis;
    this.height = canvas.clientHeight;
    this.top = timeline.scroller.scrollTop;
    if (!width || !this.height) return;
    const scale = devicePixelRatio;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(this.height * scale);
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.fillStyle = colours.page;
    context.fillRect(0, 0, width, this.height);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    this.painted.clear();
    this.texts = [];
    this.grid();
    for (const lane of timeline.lanes) {
      const y = lane.y - this.top;
      if (y + lane.h > RULER && y < this.height) this.lane(lane, y);
    }
    if (!timeline.lanes.length) this.text(timeline.nothing, axis.left + INSET, RULER + 14, colours.soft);
    this.chosenRange();
    this.ruler();
    [this.kept.width, this.kept.height] = [canvas.width, canvas.height];
    /** @type {CanvasRenderingContext2D} */ (this.kept.getContext("2d")).drawImage(canvas, 0, 0);
    this.head();
  }

  /** Move the playhead without painting the lanes again. */
  headOnly() {
    if (!this.kept.width || !this.axis.width) return;
    this.context.setTransform(1, 0, 0, 1, 0, 0);
    this.context.drawImage(this.kept, 0, 0);
    this.context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    this.head();
  }

  /** @param {string} text @param {number} x @param {number} y @param {string} colour */
  text(text, x, y, colour) {
    this.context.fillStyle = colour;
    this.context.textAlign = "left";
    this.context.fillText(text, x, y);
  }

  grid() {
    const { context, colours, axis } = this;
    context.fillStyle = colours.group.line;
    context.globalAlpha = 0.4;
    for (const { t } of axis.ticks(axis.from, axis.to)) context.fillRect(Math.round(axis.x(t)), RULER - 6, 1, this.height);
    context.globalAlpha = 1;
  }

  /** The labels of the axis, over the lanes that are scrolled below them. */
  ruler() {
    const { context, colours, axis } = this;
    context.fillStyle = colours.page;
    context.fillRect(0, 0, axis.width, RULER - 5);
    for (const { t, text } of axis.ticks(axis.from, axis.to)) {
      const x = axis.x(t);
      if (x < axis.right - 44) this.text(text, x + 3, 8, colours.soft);
    }
  }

  /** @param {Lane} lane @param {number} y */
  lane(lane, y) {
    const { context, colours, axis } = this;
    if (lane.form === "name") {
      context.fillStyle = colours.group.line;
      context.fillRect(0, y - 1, axis.width, 1);
      context.font = "600 11px system-ui, sans-serif";
      this.text(this.labels.fitted(lane.title, axis.right - INSET), INSET + 4, y + lane.h / 2 + 1, colours.ink);
      context.font = "11px system-ui, sans-serif";
      return;
    }
    context.fillStyle = colours.soft;
    context.textAlign = "right";
    context.fillText(this.labels.fitted(lane.title, axis.left - 12), axis.left - 8, y + lane.h / 2);
    context.textAlign = "left";
    context.save();
    context.beginPath();
    context.rect(axis.left, y - 1, axis.right - axis.left + 1, lane.h + 3);
    context.clip();
    if (lane.asleep) this.sleeps(lane.asleep, y, lane.h);
    if (lane.form === "level") this.level(lane, y);
    else this.row(lane, y);
    context.restore();
  }

  /** @param {Lane} lane @param {number} y */
  row(lane, y) {
    const { context, axis } = this;
    const row = /** @type {import("./bar_row.js").BarRow} */ (lane.row);
    const found = pieces(row, axis);
    this.painted.set(lane, found);
    for (const piece of found) {
      const id = row.ids[longestOf(row, piece)];
      const looks = this.look(lane, id);
      const wide = piece.first === piece.last && piece.x1 - piece.x0 >= WIDE;
      const isMoment = lane.kind === "grad" || lane.kind === "marks";
      context.globalAlpha = (isMoment || piece.first === piece.last ? 1 : 0.35 + 0.65 * shareOf(row, piece, axis)) * (looks.faint ? 0.45 : 1);
      if (isMoment) this.tick(lane, piece, y, looks.line);
      else this.bar(piece, y, lane.h, looks, wide);
      context.globalAlpha = 1;
      if (piece.first === piece.last) this.label(lane, piece, id, y);
    }
    this.ring(lane, y);
  }

  /** @param {Piece} piece @param {number} y @param {number} h @param {{fill: string, line: string, under?: string}} looks @param {boolean} wide */
  bar(piece, y, h, looks, wide) {
    const { context, axis } = this;
    const x0 = Math.max(piece.x0, axis.left - 2);
    const width = Math.max(Math.min(piece.x1, axis.right + 2) - x0, 1);
    context.fillStyle = wide ? looks.fill : looks.line;
    context.fillRect(x0, y, width, h);
    if (wide) {
      context.strokeStyle = looks.line;
      context.lineWidth = 1;
      context.strokeRect(x0 + 0.5, y + 0.5, width - 1, h - 1);
    }
    if (looks.under) {
      context.fillStyle = looks.under;
      context.fillRect(x0, y + h - 3, width, 3);
    }
  }

  /** How a bar looks. @param {Lane} lane @param {number} id @returns {{fill: string, line: string, under?: string, faint?: boolean}} */
  look(lane, id) {
    const { app, bars, colours } = this;
    const { runs, nodes, tables } = app.model;
    switch (lane.kind) {
      case "nodes": {
        const node = runs.get("node")[id];
        const paint = node < 0 ? colours.folded : colours.kinds[nodes.get("kind")[node]];
        return {
          fill: paint.fill, line: runs.get("failed")[id] ? colours.alarm : paint.line,
          under: app.critical && app.criticalNodes?.has(node) ? colours.accent : "",
          faint: app.backward >= 0 && runs.get("backward")[id] !== app.backward,
        };
      }
      case "calls": return colours.kinds[bars.calls.kind[id]];
      case "spans": return tables.spans.text("phase", id) === "user" ? colours.group : { fill: colours.folded.fill, line: colours.arrow };
      case "hooks": return { fill: colours.page, line: colours.ink };
      case "grad": return { fill: colours.kinds[0].fill, line: colours.kinds[0].line };
      case "marks": return { fill: colours.accent, line: colours.accent };
      case "backward": return { ...colours.folded, faint: app.backward >= 0 && app.backward !== id };
      case "steps": return { ...colours.group, faint: app.backward >= 0 && tables.backwards.get("in_step")[app.backward] !== id };
      default: return tables.module_runs.get("in_backward")[id] ? { fill: colours.page, line: colours.folded.line } : colours.group;
    }
  }

  /** The label of a bar stays at its visible part. @param {Lane} lane @param {Piece} piece @param {number} id @param {number} y */
  label(lane, piece, id, y) {
    const { axis } = this;
    const x0 = lane.kind === "marks" ? piece.x0 + 6 : Math.max(piece.x0, axis.left) + INSET;
    const room = lane.kind === "marks" ? this.roomAfter(lane, piece) : Math.min(piece.x1, axis.right) - x0 - INSET;
    if (room < LEAST_LABEL || lane.kind === "grad") return;
    const text = this.labels.fitted(this.timeline.title(lane, id), room);
    if (!text) return;
    this.texts.push({ text, x: x0, y });
    this.text(text, x0, y + lane.h / 2 + 0.5, this.colours.ink);
  }

  /** The room between a mark and the next one. @param {Lane} lane @param {Piece} piece */
  roomAfter(lane, piece) {
    const row = /** @type {import("./bar_row.js").BarRow} */ (lane.row);
    return (piece.last + 1 < row.length ? Math.min(this.axis.x(row.begin[piece.last + 1]), this.axis.right) : this.axis.right) - piece.x0 - 10;
  }

  /** @param {Lane} lane @param {Piece} piece @param {number} y @param {string} colour */
  tick(lane, piece, y, colour) {
    const { context } = this;
    context.fillStyle = colour;
    if (lane.kind === "marks") {
      context.fillRect(piece.x0, y, 1.5, this.height);
      return;
    }
    context.beginPath();
    context.moveTo(piece.x0, y + 1);
    context.lineTo(piece.x0 - 4, y + lane.h - 1);
    context.lineTo(piece.x1 + 3, y + lane.h - 1);
    context.lineTo(piece.x1 - 1, y + 1);
    context.fill();
  }

  /** A frame around the bars of what is selected, and a dotted one around that of the keyboard. @param {Lane} lane @param {number} y */
  ring(lane, y) {
    const { context, colours, timeline, axis } = this;
    const row = /** @type {import("./bar_row.js").BarRow} */ (lane.row);
    const frame = (/** @type {number} */ at) => {
      const [x0, x1] = [Math.max(axis.x(row.begin[at]), axis.left), Math.min(axis.x(row.end[at]), axis.right)];
      if (x1 < axis.left || x0 > axis.right) return;
      context.strokeRect(x0 - 0.5, y + 0.5, Math.max(x1 - x0, 2) + 1, lane.h - 1);
    };
    context.lineWidth = 2;
    context.strokeStyle = colours.ink;
    for (const id of timeline.selected(lane)) {
      const at = row.begunBy(timeline.beginOf(lane, id)) - 1;
      for (let near = at; near >= 0 && row.begin[near] === row.begin[at]; near -= 1) if (row.ids[near] === id) frame(near);
    }
    if (timeline.cursor.lane !== lane) return;
    context.strokeStyle = colours.accent;
    frame(timeline.cursor.at);
  }

  /** Hatching where a thread waits for others. @param {import("./bar_row.js").BarRow} row @param {number} y @param {number} h */
  sleeps(row, y, h) {
    const { context, colours, axis } = this;
    context.strokeStyle = colours.group.line;
    context.lineWidth = 1;
    for (const { x0, x1 } of pieces(row, axis)) {
      const end = Math.min(x1, axis.right);
      for (let x = Math.max(x0, axis.left); x < end; x += 5) {
        context.beginPath();
        context.moveTo(x, y + h);
        context.lineTo(Math.min(x + 5, end), y);
        context.stroke();
      }
    }
  }

  /** A number over time. @param {Lane} lane @param {number} y */
  level(lane, y) {
    const { context, colours, axis, timeline } = this;
    const { t, value } = /** @type {{t: ArrayLike<number>, value: ArrayLike<number>}} */ (lane);
    const high = timeline.highest(lane);
    const height = (/** @type {number} */ each) => y + lane.h - (lane.h - 2) * each / Math.max(high, 1);
    let at = timeline.placeIn(lane, axis.from);
    let last = at >= 0 ? height(value[at]) : y + lane.h;
    context.beginPath();
    context.moveTo(axis.left - 2, y + lane.h);
    context.lineTo(axis.left - 2, last);
    for (at += 1; at < t.length && t[at] <= axis.to; at += 1) {
      const x = axis.x(t[at]);
      let top = height(value[at]);
      let after = top;
      while (at + 1 < t.length && axis.x(t[at + 1]) < x + 0.5) {
        at += 1;
        after = height(value[at]);
        top = Math.min(top, after);
      }
      context.lineTo(x, last);
      context.lineTo(x, top);
      last = after;
      context.lineTo(x, last);
    }
    context.lineTo(axis.right, last);
    context.lineTo(axis.right, y + lane.h);
    context.closePath();
    context.fillStyle = colours.folded.fill;
    context.fill();
    context.strokeStyle = colours.arrow;
    context.lineWidth = 1;
    context.stroke();
    this.levelWords(lane.kind === "queue" ? `at most ${count(high)} ready` : `at most ${byteCount(high)}`, y);
  }

  /** @param {string} words @param {number} y */
  levelWords(words, y) {
    const { context, colours, axis } = this;
    const wide = this.labels.width(words);
    context.globalAlpha = 0.8;
    context.fillStyle = colours.page;
    context.fillRect(axis.right - 8 - wide, y, wide + 4, 13);
    context.globalAlpha = 1;
    this.text(words, axis.right - 6 - wide, y + 7, colours.soft);
  }

  chosenRange() {
    const { range } = this.app;
    if (!range) return;
    const { context, colours, axis } = this;
    const [x0, x1] = range.map((t) => Math.min(Math.max(axis.x(t), axis.left), axis.right));
    context.globalAlpha = 0.14;
    context.fillStyle = colours.accent;
    context.fillRect(x0, RULER - 5, x1 - x0, this.height);
    context.globalAlpha = 1;
    for (const x of [x0, x1]) context.fillRect(x - 0.5, RULER - 5, 1, this.height);
  }

  head() {
    const { context, colours, app, axis } = this;
    if (app.t < axis.from || app.t > axis.to) return;
    const x = axis.x(app.t);
    context.fillStyle = colours.accent;
    context.fillRect(x - 0.75, 4, 1.5, this.height);
    context.beginPath();
    context.moveTo(x, RULER - 6);
    context.lineTo(x - 6, 3);
    context.lineTo(x + 6, 3);
    context.fill();
  }
}
