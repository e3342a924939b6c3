/** The timeline: lanes of threads, queues, hooks, `.grad`, spans and saved bytes, below one playhead. */

import { count, duration } from "../core/words.js";
import { LABEL, Lanes, SPAN } from "./lanes.js";

/** @typedef {import("../core/app.js").App} App */

const HEIGHTS = { ruler: 20, thread: 24, queue: 22, hooks: 13, grad: 13, memory: 26 };
const LEAST_NS = 40;
const LOWEST_ROW = 2;

/** The canvas below, and the playhead above it. */
export class Timeline {
  /** @param {App} app @param {import("./paint.js").Colours} colours */
  constructor(app, colours) {
    this.app = app;
    this.colours = colours;
    this.canvas = /** @type {HTMLCanvasElement} */ (document.getElementById("timeline"));
    this.context = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    this.slider = /** @type {HTMLInputElement} */ (document.getElementById("playhead"));
    this.now = /** @type {HTMLElement} */ (document.getElementById("now"));
    this.live = /** @type {HTMLElement} */ (document.getElementById("live"));
    this.painter = new Lanes(this);
    this.from = 0;
    this.to = 1;
    this.playing = 0;
    /** @type {number | null} */
    this.pressed = null;
    this.listen();
    app.follow((changes) => this.update(changes));
    this.whole();
    new ResizeObserver(() => this.paint()).observe(this.canvas);
  }

  listen() {
    const { slider, canvas, app } = this;
    slider.addEventListener("input", () => app.go(Number(slider.value)));
    const acts = /** @type {[string, () => void][]} */ ([
      ["begin", () => app.go(app.events[0])], ["back", () => app.go(app.event - 1)], ["on", () => app.go(app.event + 1)],
      ["finish", () => app.go(app.events[1])], ["play", () => this.play()],
    ]);
    for (const [id, act] of acts) /** @type {HTMLElement} */ (document.getElementById(id)).addEventListener("click", act);
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.drag(event));
    canvas.addEventListener("pointerup", (event) => this.release(event));
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan((event.deltaX || event.deltaY) / 600);
      else this.zoom(Math.exp(event.deltaY * 0.002), this.timeAt(event.offsetX));
    }, { passive: false });
  }

  /** Show the whole period. */
  whole() {
    const { app } = this;
    const { backwards, events } = app.model;
    if (app.backward >= 0) {
      this.from = backwards.get("begin")[app.backward];
      this.to = backwards.get("end")[app.backward];
    } else {
      const t = events.get("t");
      [this.from, this.to] = events.length ? [t[0], t[events.length - 1]] : [0, 1];
    }
    const runs = app.model.runs;
    if (this.to < this.from) this.to = Math.max(this.from + 1, ...[...runs.get("ended_t")].slice(-1));
    if (this.to <= this.from) this.to = this.from + 1;
    [this.least, this.most] = [this.from, this.to];
    this.lanes = this.laneList();
    const [first, last] = app.events;
    this.slider.min = String(first);
    this.slider.max = String(Math.max(last, first));
    this.slider.disabled = !events.length || !app.model.engineSeen;
  }

  /** The lanes that have contents. */
  laneList() {
    const { app } = this;
    const { runs, tables } = app.model;
    const mine = [...runs.get("thread").keys()].filter((run) => app.backward < 0 || runs.get("backward")[run] === app.backward);
    const names = new Map([...tables.threads.get("id")].map((id, row) => [id, tables.threads.text("name", row)]));
    const lanes = [];
    const spans = [...tables.spans.get("begin").keys()].filter((row) => tables.spans.get("begin")[row] <= this.most && (tables.spans.get("end")[row] < 0 || tables.spans.get("end")[row] >= this.least));
    if (spans.length) lanes.push({ kind: "span", title: "spans", rows: spans, depths: this.depths(spans) });
    const threads = [...new Set(mine.map((run) => runs.get("thread")[run]))].filter((thread) => thread >= 0);
    const several = threads.length > 1;
    for (const thread of threads) {
      const of = mine.filter((run) => runs.get("thread")[run] === thread);
      lanes.push({ kind: "thread", title: names.get(thread) ?? `thread ${thread}`, rows: of, thread });
      for (const queue of new Set(of.map((run) => runs.get("queue")[run]).filter((each) => each >= 0))) {
        lanes.push({ kind: "queue", title: several ? `queue ${queue}` : "queue", queue });
      }
    }
    if (tables.hooks.length) lanes.push({ kind: "hooks", title: "hooks" });
    if (tables.arrivals.length) lanes.push({ kind: "grad", title: ".grad" });
    if (tables.memory.length) lanes.push({ kind: "memory", title: "saved" });
    let y = HEIGHTS.ruler;
    for (const lane of lanes) {
      lane.y = y;
      lane.h = lane.depths ? SPAN * (1 + Math.max(...lane.depths.values())) : HEIGHTS[/** @type {keyof HEIGHTS} */ (lane.kind)];
      y += lane.h + 4;
    }
    this.height = Math.min(Math.max(y + 6, 46), 300);
    this.canvas.style.height = `${this.height}px`;
    return lanes;
  }

  /** The depth of each span, so that none covers another; the deepest share a row. @param {number[]} rows */
  depths(rows) {
    const { begin, end } = this.app.model.tables.spans.columns;
    const open = /** @type {number[]} */ ([]);
    return new Map(rows.map((row) => {
      while (open.length && open[open.length - 1] <= begin[row]) open.pop();
      open.push(end[row] < 0 ? Infinity : end[row]);
      return [row, Math.min(open.length - 1, LOWEST_ROW)];
    }));
  }

  /** @param {Set<import("../core/app.js").Change>} changes */
  update(changes) {
    if (changes.has("backward")) this.whole();
    if (changes.has("event") || changes.has("backward")) this.say();
    const lanes = /** @type {const} */ (["selection", "backward", "look", "range"]);
    if (lanes.some((each) => changes.has(each))) this.paint();
    else if (changes.has("event")) this.painter.headOnly();
  }

  /** The position of the playhead, in words. */
  say() {
    const { app } = this;
    const { events, facts } = app.model;
    this.slider.value = String(app.event);
    if (!events.length || !app.model.engineSeen) {
      this.now.textContent = this.app.model.whyUnseen;
      return;
    }
    const [first, last] = app.events;
    const t = events.get("t");
    const node = events.get("node")[app.event];
    const words = facts.events[events.get("kind")[app.event]].replaceAll("_", " ");
    const who = node >= 0 ? ` ${app.model.title(node)}` : "";
    this.now.textContent = `${duration(t[app.event] - t[first])} of ${duration(t[last] - t[first])} · event ${count(app.eventNumber(app.event))}/${count(app.eventNumber(last))}${app.backward < 0 ? "" : " of this backward"} · ${words}${who}`;
    this.slider.setAttribute("aria-valuetext", this.now.textContent);
  }

  // Hands --------------------------------------------------------------------------------------

  x(t) {
    return LABEL + (t - this.from) / (this.to - this.from) * (this.width - LABEL - 12);
  }

  timeAt(x) {
    return this.from + (x - LABEL) / (this.width - LABEL - 12) * (this.to - this.from);
  }

  /** @param {number} factor @param {number} t */
  zoom(factor, t) {
    const length = Math.min(Math.max((this.to - this.from) * factor, LEAST_NS), this.most - this.least);
    const share = (t - this.from) / (this.to - this.from);
    this.from = Math.min(Math.max(t - share * length, this.least), this.most - length);
    this.to = this.from + length;
    this.paint();
  }

  /** @param {number} share of what is seen */
  pan(share) {
    const length = this.to - this.from;
    this.from = Math.min(Math.max(this.from + share * length, this.least), this.most - length);
    this.to = this.from + length;
    this.paint();
  }

  /** @param {PointerEvent} event */
  press(event) {
    this.pressed = event.offsetX;
    this.canvas.setPointerCapture(event.pointerId);
    this.sliding = event.offsetY < HEIGHTS.ruler;
    if (this.sliding) this.goTo(this.timeAt(event.offsetX));
  }

  /** @param {PointerEvent} event */
  drag(event) {
    if (this.pressed === null) {
      const run = this.runAt(event.offsetX, event.offsetY);
      this.canvas.title = run >= 0 ? `${this.app.model.title(this.app.model.runs.get("node")[run])}, ${duration(this.app.model.runs.get("self_ns")[run])}` : "";
    } else if (this.sliding) this.goTo(this.timeAt(event.offsetX));
    else if (Math.abs(event.offsetX - this.pressed) > 4) {
      const ends = [this.timeAt(this.pressed), this.timeAt(event.offsetX)].sort((one, other) => one - other);
      this.app.range = /** @type {[number, number]} */ (ends);
      this.app.tell("range");
    }
  }

  /** @param {PointerEvent} event */
  release(event) {
    const from = this.pressed;
    this.pressed = null;
    if (from === null || this.sliding || Math.abs(event.offsetX - from) > 4) return;
    const run = this.runAt(event.offsetX, event.offsetY);
    this.app.range = null;
    if (run < 0) {
      this.goTo(this.timeAt(event.offsetX));
      return;
    }
    this.app.selectNode(this.app.model.runs.get("node")[run]);
    this.app.go(this.app.model.runs.get("begun")[run]);
  }

  /** The innermost run there. @param {number} x @param {number} y */
  runAt(x, y) {
    const { begun_t: begun, ended_t: ended, node } = this.app.model.runs.columns;
    const lane = this.lanes.find((each) => each.kind === "thread" && y >= each.y && y < each.y + each.h);
    let found = -1;
    let nearest = Infinity;
    for (const run of lane?.rows ?? []) {
      if (begun[run] < 0 || node[run] < 0) continue;
      const [x0, x1] = [this.x(begun[run]), this.x(ended[run] < 0 ? this.most : ended[run])];
      if (x >= x0 - 2 && x <= x1 + 2 && x1 - x0 < nearest) [found, nearest] = [run, x1 - x0];
    }
    return found;
  }

  /** The last event up to a moment. @param {number} t */
  goTo(t) {
    const times = this.app.model.events.get("t");
    const [first, last] = this.app.events;
    let [low, high] = [first, last];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (times[middle] <= t) low = middle;
      else high = middle - 1;
    }
    this.app.go(low);
  }

  /** Play what is shown in ten seconds, or stop. */
  play() {
    const button = /** @type {HTMLElement} */ (document.getElementById("play"));
    const shown = (/** @type {string} */ sign) => { /** @type {Text} */ (button.firstChild).data = sign; };
    if (this.playing) {
      clearInterval(this.playing);
      this.playing = 0;
      shown("▶");
      return;
    }
    const { app } = this;
    const [first, last] = app.events;
    if (app.event >= last) app.go(first);
    const step = Math.max(1, Math.round((last - first) / 250));
    shown("■");
    this.playing = setInterval(() => {
      if (app.event >= last) this.play();
      else app.go(app.event + step);
    }, 40);
  }

  paint() {
    this.painter.paint();
  }
}
