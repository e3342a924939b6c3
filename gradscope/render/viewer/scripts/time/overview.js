/** The overview above the lanes: the whole extent of time, a slider for the playhead, and a brush for the window of the lanes. */

import { duration } from "../core/words.js";

/** @typedef {import("./bar_row.js").BarRow} BarRow */

const OVERVIEW_HEIGHT = 44;
const OVERVIEW_RULER = 16;
const GRIP = 6;
const STILL = 4;
const LEAST_NAME = 30;

/** How much of a period each part of the program took, of all threads that did anything. @typedef {{calls: number, nodes: number, work: number, spans: number}} Shares */

/** The slider and the brush. */
export class Overview {
  /** @param {import("./timeline.js").Timeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
    this.app = timeline.app;
    this.axis = timeline.axis;
    this.colours = timeline.colours;
    this.element = /** @type {HTMLElement} */ (document.getElementById("playhead"));
    this.canvas = /** @type {HTMLCanvasElement} */ (document.getElementById("overview"));
    this.context = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    this.kept = document.createElement("canvas");
    /** @type {((x: number) => void) | null} what a drag does */
    this.drag = null;
    this.pressedAt = 0;
    this.moved = false;
    this.listen();
  }

  listen() {
    const { element, axis, timeline } = this;
    element.addEventListener("pointerdown", (event) => {
      element.setPointerCapture(event.pointerId);
      timeline.card.hide();
      this.pressedAt = event.offsetX;
      this.moved = false;
      this.drag = this.actAt(event.offsetX, event.offsetY);
      if (this.drag === this.slide) this.slide(event.offsetX);
    });
    element.addEventListener("pointermove", (event) => {
      element.style.cursor = this.cursorAt(event.offsetX, event.offsetY);
      if (!this.drag) {
        this.hover(event);
        return;
      }
      if (Math.abs(event.offsetX - this.pressedAt) > STILL) this.moved = true;
      if (this.moved || this.drag === this.slide) this.drag(event.offsetX);
    });
    element.addEventListener("pointerup", (event) => {
      if (this.drag && !this.moved && this.drag !== this.slide) timeline.goTo(axis.overviewTime(event.offsetX));
      this.drag = null;
    });
    element.addEventListener("pointercancel", () => { this.drag = null; });
    element.addEventListener("pointerleave", () => timeline.card.hide());
    element.addEventListener("dblclick", () => timeline.showWhole());
    element.addEventListener("keydown", (event) => this.key(event));
    element.addEventListener("wheel", (event) => timeline.wheel(event, axis.overviewTime(event.offsetX)), { passive: false });
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const { app, axis, timeline } = this;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = (axis.to - axis.from) / 100;
    const moments = /** @type {Record<string, number>} */ ({
      ArrowRight: app.t + step, ArrowUp: app.t + step, ArrowLeft: app.t - step, ArrowDown: app.t - step,
      PageUp: app.t + 10 * step, PageDown: app.t - 10 * step, Home: axis.least, End: axis.most,
    });
    if (!(event.key in moments)) return;
    event.preventDefault();
    event.stopPropagation();
    timeline.goTo(moments[event.key]);
  }

  // The pointer ----------------------------------------------------------------------------------

  /** Where the window of the lanes begins and ends. @returns {[number, number]} */
  get brush() {
    return [this.axis.overviewX(this.axis.from), this.axis.overviewX(this.axis.to)];
  }

  /** What a drag from here does. @param {number} x @param {number} y @returns {(x: number) => void} */
  actAt(x, y) {
    const { axis, timeline } = this;
    const [x0, x1] = this.brush;
    if (y < OVERVIEW_RULER) return this.slide;
    const [from, to] = [axis.from, axis.to];
    const show = (/** @type {number} */ one, /** @type {number} */ other) => timeline.showPeriod(Math.min(one, other), Math.max(one, other));
    if (Math.abs(x - x0) <= GRIP) return (now) => show(axis.overviewTime(now), to);
    if (Math.abs(x - x1) <= GRIP) return (now) => show(from, axis.overviewTime(now));
    const begin = axis.overviewTime(x);
    if (x > x0 && x < x1 && !axis.isWhole) {
      const perPixel = (axis.most - axis.least) / (axis.right - axis.left);
      return (now) => timeline.showPeriod(from + (now - x) * perPixel, to + (now - x) * perPixel);
    }
    return (now) => show(begin, axis.overviewTime(now));
  }

  slide = (/** @type {number} */ x) => this.timeline.goTo(this.axis.overviewTime(x));

  /** @param {number} x @param {number} y */
  cursorAt(x, y) {
    const [x0, x1] = this.brush;
    if (y < OVERVIEW_RULER) return "pointer";
    if (Math.abs(x - x0) <= GRIP || Math.abs(x - x1) <= GRIP) return "ew-resize";
    return x > x0 && x < x1 && !this.axis.isWhole ? "grab" : "crosshair";
  }

  /** @param {PointerEvent} event */
  hover(event) {
    const { axis, timeline } = this;
    if (event.offsetX < axis.left || event.offsetX > axis.right) return;
    const t = axis.overviewTime(event.offsetX);
    const around = (axis.most - axis.least) / (axis.right - axis.left) * 2;
    const shares = this.shares(t - around, t + around);
    const percent = (/** @type {number} */ share) => `${Math.round(100 * share)}%`;
    timeline.card.show(event.clientX, event.clientY, `${duration(t - axis.least)} of ${duration(axis.most - axis.least)}`, [
      ["runs", timeline.moment.runningAt(t) || "nothing that was recorded"], ["calls", percent(shares.calls)], ["backward", percent(shares.nodes)], ["optimizer, collectives", percent(shares.work)], ["spans", percent(shares.spans)],
      ["drag", "choose what the lanes show"], ["double click", "show all"],
    ]);
  }

  /** @param {number} from @param {number} to @returns {Shares} */
  shares(from, to) {
    const { threads } = this.timeline.bars;
    const share = (/** @type {(thread: any) => BarRow | undefined} */ of) => {
      let [sum, many] = [0, 0];
      for (const thread of threads) {
        const row = of(thread);
        if (!row?.length) continue;
        many += 1;
        sum += row.busy(from, to);
      }
      return many ? sum / (to - from) / many : 0;
    };
    return { calls: share((thread) => thread.called), nodes: share((thread) => thread.ran), work: share((thread) => thread.worked), spans: share((thread) => thread.named) };
  }

  // Painting -------------------------------------------------------------------------------------

  /** Paint the extent: what ran when, and the steps. */
  paint() {
    const { canvas, context, colours, axis } = this;
    const width = this.element.clientWidth;
    if (!width) return;
    const scale = devicePixelRatio;
    [canvas.width, canvas.height] = [Math.round(width * scale), Math.round(OVERVIEW_HEIGHT * scale)];
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.fillStyle = colours.page;
    context.fillRect(0, 0, width, OVERVIEW_HEIGHT);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.fillStyle = colours.soft;
    for (const { t, text } of axis.ticks(axis.least, axis.most)) {
      const x = axis.overviewX(t);
      context.fillRect(Math.round(x), OVERVIEW_RULER - 4, 1, 4);
      if (x < axis.right - 44) context.fillText(text, x + 3, 7);
    }
    context.textAlign = "right";
    context.fillText(this.timeline.extentTitle, axis.left - 8, OVERVIEW_RULER + (OVERVIEW_HEIGHT - OVERVIEW_RULER) / 2, axis.left - 10);
    context.textAlign = "left";
    this.density();
    this.stepMarks();
    [this.kept.width, this.kept.height] = [canvas.width, canvas.height];
    /** @type {CanvasRenderingContext2D} */ (this.kept.getContext("2d")).drawImage(canvas, 0, 0);
    this.front();
  }

  density() {
    const { context, colours, axis } = this;
    const high = OVERVIEW_HEIGHT - OVERVIEW_RULER - 4;
    const bottom = OVERVIEW_HEIGHT - 2;
    context.fillStyle = colours.group.fill;
    context.fillRect(axis.left, OVERVIEW_RULER, axis.right - axis.left, OVERVIEW_HEIGHT - OVERVIEW_RULER);
    const perPixel = (axis.most - axis.least) / (axis.right - axis.left);
    const paints = { nodes: colours.accent, calls: colours.soft, work: colours.arrow };
    for (let x = axis.left; x < axis.right; x += 1) {
      const t = axis.least + (x - axis.left) * perPixel;
      const shares = this.shares(t, t + perPixel);
      let y = bottom;
      if (shares.spans > 0) {
        context.fillStyle = colours.folded.fill;
        context.fillRect(x, OVERVIEW_RULER, 1, bottom - OVERVIEW_RULER);
      }
      for (const part of /** @type {const} */ (["nodes", "calls", "work"])) {
        if (shares[part] <= 0) continue;
        const h = Math.min(Math.max(shares[part] * high, 2), y - OVERVIEW_RULER - 1);
        context.fillStyle = paints[part];
        context.fillRect(x, y - h, 1, h);
        y -= h;
      }
    }
  }

  /** Where each step begins; its name, if that fits into it. */
  stepMarks() {
    const { context, colours, axis, timeline } = this;
    if (!timeline.showsSteps) return;
    for (const row of timeline.bars.steps) {
      for (let at = 0; at < row.length; at += 1) {
        const [x0, x1] = [axis.overviewX(row.begin[at]), axis.overviewX(row.end[at])];
        context.fillStyle = colours.ink;
        context.fillRect(Math.round(x0), OVERVIEW_RULER, 1, 5);
        const text = timeline.title({ kind: "steps" }, row.ids[at]);
        const width = x1 - x0 < LEAST_NAME ? Infinity : context.measureText(text).width + 6;
        if (width > x1 - x0) continue;
        context.fillStyle = colours.page;
        context.fillRect(x0 + 2, OVERVIEW_RULER + 1, width, 13);
        context.fillStyle = colours.ink;
        context.fillText(text, x0 + 5, OVERVIEW_RULER + 8);
      }
    }
  }

  /** The window of the lanes, and the playhead. */
  front() {
    const { context, colours, axis, app } = this;
    if (!this.kept.width) return;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.drawImage(this.kept, 0, 0);
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    const [x0, x1] = this.brush;
    context.fillStyle = colours.page;
    context.globalAlpha = 0.65;
    context.fillRect(axis.left, OVERVIEW_RULER, x0 - axis.left, OVERVIEW_HEIGHT - OVERVIEW_RULER);
    context.fillRect(x1, OVERVIEW_RULER, axis.right - x1, OVERVIEW_HEIGHT - OVERVIEW_RULER);
    context.globalAlpha = 1;
    context.strokeStyle = colours.accent;
    context.lineWidth = 1;
    context.strokeRect(x0 - 0.5, OVERVIEW_RULER + 0.5, Math.max(x1 - x0, 2) + 1, OVERVIEW_HEIGHT - OVERVIEW_RULER - 1);
    context.fillStyle = colours.accent;
    for (const x of [x0, x1]) context.fillRect(x - 1.5, OVERVIEW_RULER + 7, 3, OVERVIEW_HEIGHT - OVERVIEW_RULER - 14);
    const x = Math.min(Math.max(axis.overviewX(app.t), axis.left), axis.right);
    context.fillRect(x - 0.75, 4, 1.5, OVERVIEW_HEIGHT);
    context.beginPath();
    context.moveTo(x, OVERVIEW_RULER - 2);
    context.lineTo(x - 7, 2);
    context.lineTo(x + 7, 2);
    context.fill();
  }

  /** Say where the playhead is. @param {string} words */
  say(words) {
    const { element, axis, app } = this;
    element.setAttribute("aria-valuemin", "0");
    element.setAttribute("aria-valuemax", String(Math.round(axis.most - axis.least)));
    element.setAttribute("aria-valuenow", String(Math.round(app.t - axis.least)));
    element.setAttribute("aria-valuetext", words);
  }
}
