/** Paints the lanes of the timeline. */

import { byteCount, count, duration } from "../core/words.js";

export const LABEL = 118;
export const SPAN = 17;

/** Paints the lanes that a timeline contains. */
export class Lanes {
  /** @param {import("./timeline.js").Timeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
    this.app = timeline.app;
    this.colours = timeline.colours;
    this.canvas = timeline.canvas;
    this.context = timeline.context;
  }

  x(t) {
    return this.timeline.x(t);
  }

  paint() {
    const { canvas, context, colours, timeline } = this;
    const { from, to, least, most, height, lanes } = timeline;
    Object.assign(this, { from, to, least, most, height, lanes });
    this.width = canvas.clientWidth;
    timeline.width = this.width;
    if (!this.width) return;
    const scale = devicePixelRatio;
    canvas.width = Math.round(this.width * scale);
    canvas.height = Math.round(this.height * scale);
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.fillStyle = colours.page;
    context.fillRect(0, 0, this.width, this.height);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    this.ruler();
    for (const lane of this.lanes) this.lane(lane);
    if (!this.app.model.engineSeen) {
      context.fillStyle = colours.soft;
      context.fillText(`No lanes: ${this.app.model.whyUnseen}.`, LABEL, this.height - 12);
    }
    this.marks();
    this.chosenRange();
    this.kept ??= document.createElement("canvas");
    [this.kept.width, this.kept.height] = [canvas.width, canvas.height];
    /** @type {CanvasRenderingContext2D} */ (this.kept.getContext("2d")).drawImage(canvas, 0, 0);
    this.head();
  }

  /** Move the playhead without painting the lanes again. */
  headOnly() {
    if (!this.kept || !this.width) return;
    this.context.setTransform(1, 0, 0, 1, 0, 0);
    this.context.drawImage(this.kept, 0, 0);
    this.context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    this.head();
  }

  ruler() {
    const { context, colours } = this;
    const wanted = (this.to - this.from) / Math.max(2, (this.width - LABEL) / 110);
    const power = 10 ** Math.floor(Math.log10(wanted));
    const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= wanted) ?? wanted;
    context.strokeStyle = colours.group.line;
    context.fillStyle = colours.soft;
    context.lineWidth = 1;
    context.textAlign = "left";
    for (let t = Math.ceil((this.from - this.least) / step) * step; t <= this.to - this.least; t += step) {
      const x = Math.round(this.x(t + this.least)) + 0.5;
      context.beginPath();
      context.moveTo(x, 14);
      context.lineTo(x, this.height);
      context.stroke();
      if (x < this.width - 50) context.fillText(duration(t), x + 3, 9);
    }
  }

  lane(lane) {
    const { context, colours } = this;
    context.fillStyle = colours.soft;
    context.textAlign = "right";
    let title = lane.title;
    while (title.length > 3 && context.measureText(title).width > LABEL - 16) title = `${title.slice(0, -2)}…`;
    context.fillText(title, LABEL - 8, lane.y + lane.h / 2);
    context.textAlign = "left";
    context.save();
    context.beginPath();
    context.rect(LABEL, lane.y - 1, this.width - LABEL - 8, lane.h + 3);
    context.clip();
    const acts = { thread: () => this.thread(lane), queue: () => this.queue(lane), hooks: () => this.ticks("hooks", lane), grad: () => this.ticks("grad", lane), span: () => this.spans(lane), memory: () => this.memory(lane) };
    acts[/** @type {keyof acts} */ (lane.kind)]();
    context.restore();
  }

  thread(lane) {
    const { context, colours, app } = this;
    this.sleeps(lane);
    const { begun_t: begun, ended_t: ended, node, failed } = app.model.runs.columns;
    const kind = app.model.nodes.get("kind");
    let right = -1;
    for (const run of lane.rows) {
      if (begun[run] < 0 || begun[run] > this.to) continue;
      const end = ended[run] < 0 ? this.most : ended[run];
      if (end < this.from) continue;
      const [x0, x1] = [this.x(begun[run]), this.x(end)];
      if (x1 < right + 0.4 && node[run] !== app.node) continue;
      right = Math.max(right, x1);
      const paint = node[run] >= 0 ? colours.kinds[kind[node[run]]] : colours.folded;
      const width = Math.max(x1 - x0, 1);
      context.fillStyle = width < 3 ? paint.line : paint.fill;
      context.fillRect(x0, lane.y, width, lane.h);
      if (width >= 3) {
        context.strokeStyle = failed[run] ? colours.alarm : paint.line;
        context.lineWidth = 1;
        context.strokeRect(x0 + 0.5, lane.y + 0.5, width - 1, lane.h - 1);
      }
      if (width > 40 && node[run] >= 0) this.inside(app.model.title(node[run]), x0, width, lane);
      if (app.critical && app.criticalNodes?.has(node[run])) {
        context.fillStyle = colours.accent;
        context.fillRect(x0, lane.y + lane.h - 3, width, 3);
      }
    }
    const run = app.node >= 0 ? app.runOf(app.node) : -1;
    if (run >= 0 && begun[run] >= 0 && lane.rows.includes(run)) {
      context.strokeStyle = colours.ink;
      context.lineWidth = 2;
      const x0 = this.x(begun[run]);
      context.strokeRect(x0 - 1, lane.y, Math.max(this.x(ended[run] < 0 ? this.most : ended[run]) - x0, 2) + 2, lane.h);
    }
  }

  inside(text, x, width, lane) {
    const { context, colours } = this;
    context.fillStyle = colours.ink;
    let most = Math.min(text.length, Math.floor(width / 4));
    while (most > 1 && context.measureText(text.slice(0, most)).width > width - (most < text.length ? 16 : 8)) most -= 1;
    context.fillText(most === text.length ? text : `${text.slice(0, most)}…`, x + 4, lane.y + lane.h / 2 + 0.5);
  }

  /** Hatching where a thread waits for others. */
  sleeps(lane) {
    const { context, colours } = this;
    const { sleeps } = this.app.model.tables;
    context.strokeStyle = colours.group.line;
    context.lineWidth = 1;
    for (let row = 0; row < sleeps.length; row += 1) {
      if (sleeps.get("thread")[row] !== lane.thread) continue;
      const [x0, x1] = [this.x(Math.max(sleeps.get("begin")[row], this.from)), this.x(Math.min(sleeps.get("end")[row], this.to))];
      for (let x = x0; x < x1; x += 5) {
        context.beginPath();
        context.moveTo(x, lane.y + lane.h);
        context.lineTo(Math.min(x + 5, x1), lane.y);
        context.stroke();
      }
    }
  }

  queue(lane) {
    const { queue } = this.app.model.tables;
    const rows = [];
    queue.get("queue").forEach((each, row) => { if (each === lane.queue) rows.push(row); });
    this.levels(lane, rows, queue.get("t"), queue.get("length"), (most) => `at most ${count(most)} ready`);
  }

  memory(lane) {
    const { memory } = this.app.model.tables;
    this.levels(lane, [...memory.get("t").keys()], memory.get("t"), memory.get("bytes"), (most) => `at most ${byteCount(most)}`);
  }

  levels(lane, rows, t, value, words) {
    const { context, colours } = this;
    const seen = rows.filter((row) => t[row] >= this.least && t[row] <= this.most);
    const before = rows.filter((row) => t[row] < this.least).pop();
    if (before !== undefined) seen.unshift(before);
    const most = seen.reduce((high, row) => Math.max(high, value[row]), 1);
    context.beginPath();
    const y = (/** @type {number} */ each) => lane.y + lane.h - (lane.h - 2) * each / most;
    let last = lane.y + lane.h;
    context.moveTo(this.x(Math.max(this.from, this.least)), lane.y + lane.h);
    for (const row of seen) {
      const x = Math.max(this.x(t[row]), LABEL - 2);
      context.lineTo(x, last);
      last = y(value[row]);
      context.lineTo(x, last);
    }
    context.lineTo(this.x(this.to), last);
    context.lineTo(this.x(this.to), lane.y + lane.h);
    context.closePath();
    context.fillStyle = colours.folded.fill;
    context.fill();
    context.strokeStyle = colours.arrow;
    context.lineWidth = 1;
    context.stroke();
    const said = words(most);
    const wide = context.measureText(said).width;
    context.globalAlpha = 0.8;
    context.fillStyle = colours.page;
    context.fillRect(this.width - 18 - wide, lane.y - 1, wide + 4, 14);
    context.globalAlpha = 1;
    context.fillStyle = colours.soft;
    context.textAlign = "right";
    context.fillText(said, this.width - 16, lane.y + 7);
    context.textAlign = "left";
  }

  /** @param {"hooks" | "grad"} kind */
  ticks(kind, lane) {
    const { context, colours } = this;
    const { hooks, arrivals } = this.app.model.tables;
    const t = kind === "hooks" ? hooks.get("begin") : arrivals.get("t");
    context.fillStyle = kind === "hooks" ? colours.ink : colours.kinds[0].line;
    let last = -9;
    for (const each of t) {
      const x = this.x(each);
      if (each < this.from || each > this.to || x < last + 1) continue;
      last = x;
      context.beginPath();
      context.moveTo(x, lane.y + 2);
      context.lineTo(x - 4, lane.y + lane.h - 1);
      context.lineTo(x + 4, lane.y + lane.h - 1);
      context.fill();
    }
  }

  spans(lane) {
    const { context, colours } = this;
    const { spans } = this.app.model.tables;
    for (const row of lane.rows) {
      const end = spans.get("end")[row];
      const [x0, x1] = [Math.max(this.x(spans.get("begin")[row]), LABEL), this.x(end < 0 ? this.most : end)];
      if (x1 < LABEL || x0 > this.width) continue;
      const part = { y: lane.y + lane.depths.get(row) * SPAN, h: SPAN - 2 };
      context.fillStyle = colours.group.fill;
      context.fillRect(x0, part.y, Math.max(x1 - x0, 1), part.h);
      context.strokeStyle = colours.group.line;
      context.lineWidth = 1;
      context.strokeRect(x0 + 0.5, part.y + 0.5, Math.max(x1 - x0 - 1, 1), part.h - 1);
      if (x1 - x0 > 40) this.inside(spans.text("name", row), x0, x1 - x0, part);
    }
  }

  marks() {
    const { context, colours } = this;
    const { marks } = this.app.model.tables;
    for (let row = 0; row < marks.length; row += 1) {
      const t = marks.get("t")[row];
      if (t < this.from || t > this.to) continue;
      const x = this.x(t);
      context.fillStyle = colours.accent;
      context.fillRect(x, 14, 1, this.height);
      context.fillText(`⚐ ${marks.text("name", row)}`, x + 3, 14);
    }
  }

  chosenRange() {
    const { range } = this.app;
    if (!range) return;
    const { context, colours } = this;
    context.globalAlpha = 0.12;
    context.fillStyle = colours.accent;
    context.fillRect(this.x(range[0]), 0, this.x(range[1]) - this.x(range[0]), this.height);
    context.globalAlpha = 1;
  }

  head() {
    const { context, colours, app } = this;
    const { events } = app.model;
    if (!events.length || !app.model.engineSeen) return;
    const x = Math.min(Math.max(this.x(events.get("t")[app.event]), LABEL), this.width - 8);
    context.fillStyle = colours.accent;
    context.fillRect(x - 0.75, 4, 1.5, this.height);
    context.beginPath();
    context.moveTo(x, 14);
    context.lineTo(x - 6, 3);
    context.lineTo(x + 6, 3);
    context.fill();
  }
}
