/** Paints boxes, frames and arrows. All colours come from the style sheet. */

import { heatOf, hottest, shadeOf } from "../core/heat.js";
import { FONTS } from "../core/picture.js";
import { STRUCTURE_COLORS, structureAround, structureSign } from "../core/structures.js";
import { DONE, FAILED, GLYPHS, NOT_RUN, READY, RUNNING, WAITING } from "../core/state.js";
import { TITLE } from "../core/layout.js";
import { STUB_HEIGHT } from "../layout/columns.js";

/** The glyphs of marks. */
export const MARKS = /** @type {Record<string, string>} */ ({
  "backward starts here": "▶", "in focus": "◎", "first NaN produced here": "✖", "first Inf produced here": "✖", "not finite": "△", raised: "✖",
  "not run": "○", "gradient returned (inputs=)": "◆", "ran inside another node": "◇", "has hooks": "⚑", "writes in place": "✎",
});
const ALARMS = new Set(["first NaN produced here", "first Inf produced here", "not finite", "raised"]);
const SMALL = 7;
const LEAST = 6;
const CORNER = 6;
export const LANES = 6;

/** The colours of the style sheet, read once for each look. */
export class Colours {
  constructor() {
    this.read();
  }

  read() {
    const style = getComputedStyle(document.documentElement);
    const get = (/** @type {string} */ name) => style.getPropertyValue(`--${name}`).trim();
    for (const name of ["page", "ink", "soft", "code", "arrow", "alarm", "accent"]) this[name] = get(name);
    this.alarmFill = get("alarm-fill");
    this.group = { fill: get("group-fill"), line: get("group-line") };
    this.folded = { fill: get("folded-fill"), line: get("folded-line") };
    this.kinds = Array.from({ length: 12 }, (_, kind) => ({ fill: get(`kind-${kind}-fill`), line: get(`kind-${kind}-line`) }));
    this.heat = [0, 1, 2, 3, 4].map((step) => get(`heat-${step}`));
    this.structures = Array.from({ length: STRUCTURE_COLORS }, (_, number) => ({ fill: get(`structure-${number}-fill`), line: get(`structure-${number}-line`) }));
    this.lanes = Array.from({ length: LANES }, (_, lane) => get(`lane-${lane}`));
  }
}

/** Paints a picture. */
export class Painter {
  /** @param {CanvasRenderingContext2D} context @param {import("../core/app.js").App} app @param {Colours} colours */
  constructor(context, app, colours) {
    this.context = context;
    this.app = app;
    this.colours = colours;
  }

  /** @param {{x: number, y: number, k: number, width: number, height: number}} view @param {string} hovered key of a box */
  paint(view, hovered) {
    const { context, app, colours } = this;
    const { picture } = app;
    const scale = devicePixelRatio;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.fillStyle = colours.page;
    context.fillRect(0, 0, view.width, view.height);
    context.setTransform(scale * view.k, 0, 0, scale * view.k, scale * view.x, scale * view.y);
    this.k = view.k;
    this.seen = { x0: -view.x / view.k, y0: -view.y / view.k, x1: (view.width - view.x) / view.k, y1: (view.height - view.y) / view.k };
    this.lit = this.litBy(hovered);
    this.hottest = app.coloring === "kind" ? 1 : hottest(app);
    for (const frame of [...picture.frames].reverse()) this.frame(frame);
    for (const route of picture.routes) if (!this.isLit(route)) this.arrow(route);
    for (const route of picture.routes) if (this.isLit(route)) this.arrow(route);
    this.stubs();
    for (const frame of picture.frames) this.frameTitle(frame);
    for (const box of picture.all) if (this.isSeen(box)) this.box(box);
    this.ring();
  }

  isSeen(item) {
    const { x0, y0, x1, y1 } = this.seen;
    return item.x < x1 && item.x + item.w > x0 && item.y < y1 && item.y + item.h > y0;
  }

  /** The arrows to and from the hovered or selected box. @param {string} hovered */
  litBy(hovered) {
    const { app } = this;
    const key = hovered || (app.node >= 0 ? app.picture.boxFor(app.node)?.key : app.group >= 0 ? `g${app.group}` : "");
    return key;
  }

  frame(frame) {
    if (!this.isSeen(frame)) return;
    const { app, context, colours } = this;
    context.beginPath();
    context.roundRect(frame.x, frame.y, frame.w, frame.h, 8);
    context.fillStyle = colours.group.fill;
    context.fill();
    context.lineWidth = 1;
    const number = app.coloring === "structure" ? app.model.groups.get("structure")[frame.group] : -1;
    context.strokeStyle = number < 0 ? colours.group.line : colours.structures[number % STRUCTURE_COLORS].line;
    context.stroke();
  }

  /** Painted over the arrows. */
  frameTitle(frame) {
    const { app, context, colours } = this;
    const largest = Math.max(12, Math.min(11 / this.k, 22));
    if (!this.isSeen(frame) || this.k * largest < 4) return;
    context.font = FONTS.frame.replace("12px", `${largest}px`);
    const sign = structureSign(app, frame.group);
    const plain = sign ? `${sign} · ${frame.title}` : frame.title;
    const size = Math.max(12, largest * Math.min(1, (frame.w - 18) / context.measureText(plain).width));
    context.font = FONTS.frame.replace("12px", `${size}px`);
    context.textBaseline = "middle";
    context.textAlign = "left";
    context.fillStyle = colours.group.fill;
    const room = frame.w - 16;
    const whole = context.measureText(plain + frame.more).width;
    const title = whole <= Math.min(room, frame.entry - 16) ? plain + frame.more : plain;
    context.fillRect(frame.x + 6, frame.y + 3, Math.min(context.measureText(title).width + 8, frame.w - 12), TITLE - 4);
    context.fillStyle = colours.soft;
    this.clipped(title, frame.x + 10, frame.y + TITLE / 2 + 2, room);
  }

  clipped(text, x, y, width) {
    const { context } = this;
    if (context.measureText(text).width <= width) {
      context.fillText(text, x, y);
      return;
    }
    let [low, high] = [0, text.length];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (context.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
      else high = middle - 1;
    }
    if (low > 0) context.fillText(`${text.slice(0, low)}…`, x, y);
  }

  isLit(route) {
    return this.lit !== "" && (route.tail === this.lit || route.head === this.lit);
  }

  /** Those between columns are fainter, unless they are lit. */
  arrow(route) {
    const { context, colours, app } = this;
    const lit = this.isLit(route);
    const critical = app.critical && this.onPath(route);
    const faint = this.lit && !lit && !critical;
    context.strokeStyle = lit || critical ? colours.accent : colours.arrow;
    context.fillStyle = context.strokeStyle;
    context.globalAlpha = faint ? 0.35 : 1;
    context.lineWidth = lit || critical ? Math.max(2, 1.6 / this.k) : Math.max(1.1, 0.7 / this.k) * (route.turns ? 0.8 : 1);
    this.curve(route.points);
    if (route.ends) this.tip(route.points[route.points.length - 1]);
    if (lit && !(route.begins && route.ends)) this.whole(route);
    context.globalAlpha = 1;
  }

  onPath(route) {
    const { picture, criticalKeys } = this.app;
    return picture && criticalKeys?.has(`${route.tail}>${route.head}`);
  }

  curve(points) {
    const { context } = this;
    context.beginPath();
    context.moveTo(points[0][0], points[0][1]);
    for (let at = 1; at < points.length; at += 1) {
      const [x0, y0] = points[at - 1];
      const [x1, y1] = points[at];
      const after = points[at + 1];
      if (after && (x0 === x1 && y1 === after[1] || y0 === y1 && x1 === after[0])) context.arcTo(x1, y1, after[0], after[1], Math.min(CORNER, ...[points[at - 1], after].map(([x, y]) => Math.hypot(x - x1, y - y1) / 2)));
      else if (Math.abs(x0 - x1) < 0.5 || y0 === y1) context.lineTo(x1, y1);
      else context.bezierCurveTo(x0, (y0 + y1) / 2, x1, (y0 + y1) / 2, x1, y1);
    }
    context.stroke();
  }

  tip([x, y]) {
    const { context } = this;
    const size = Math.max(5, 3 / this.k);
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x - size * 0.7, y - size * 1.5);
    context.lineTo(x + size * 0.7, y - size * 1.5);
    context.fill();
  }

  /** An arrow that is cut, from box to box: where it is lit. @param {import("../core/layout.js").Route} route */
  whole(route) {
    const { boxes } = this.app.picture;
    const [tail, head] = [boxes.get(route.tail), boxes.get(route.head)];
    this.context.setLineDash([5, 4]);
    this.curve([[tail.x + tail.w / 2, tail.y + tail.h], [head.x + head.w / 2, head.y]]);
    this.context.setLineDash([]);
  }

  /** The names at the ends of arrows that are cut. */
  stubs() {
    const { context, colours, app } = this;
    if (this.k * 13 < LEAST) return;
    context.font = FONTS.stub;
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillStyle = colours.soft;
    for (const { x, y, text } of app.picture.stubs) context.fillText(text, x + 2, y + STUB_HEIGHT / 2);
  }

  paintOf(box) {
    const { colours, app } = this;
    if (app.coloring === "structure" && box.is !== "leaf") {
      const number = structureAround(app, box.group);
      if (number >= 0) return colours.structures[number % STRUCTURE_COLORS];
      return box.is === "group" ? colours.folded : { fill: colours.page, line: colours.arrow };
    }
    if (app.coloring !== "kind" && box.is !== "leaf") {
      const heat = heatOf(app, box);
      return { fill: heat < 0 ? colours.page : colours.heat[shadeOf(heat, this.hottest)], line: colours.arrow };
    }
    if (box.is === "group") return colours.folded;
    return colours.kinds[app.model.nodes.get("kind")[box.node]];
  }

  box(box) {
    const { context, app, colours } = this;
    const state = box.is === "group" ? DONE : app.model.engineSeen ? app.states.of[box.node] : DONE;
    const paint = this.paintOf(box);
    context.globalAlpha = app.range && !this.inRange(box) ? 0.25 : 1;
    this.outline(box);
    context.lineWidth = 1.3;
    context.setLineDash([]);
    let ink = colours.ink;
    let soft = colours.soft;
    if (state === DONE) [context.fillStyle, context.strokeStyle] = [paint.fill, paint.line];
    else [context.fillStyle, context.strokeStyle] = [colours.page, colours.arrow];
    if (state === WAITING || state === NOT_RUN) context.setLineDash(state === WAITING ? [4, 3] : [1.5, 3]);
    if (state === READY) [context.strokeStyle, context.lineWidth] = [colours.accent, 2.4];
    if (state === RUNNING) {
      [context.fillStyle, context.strokeStyle] = [colours.accent, colours.accent];
      [ink, soft] = [colours.page, colours.page];
    }
    const alarmed = state === FAILED || (box.is === "group" ? app.tree.alarms[box.group] > 0 : this.alarming(box));
    if (alarmed && state !== RUNNING) [context.strokeStyle, context.lineWidth] = [colours.alarm, 2];
    if (alarmed && state === FAILED) context.fillStyle = colours.alarmFill;
    context.fill();
    context.stroke();
    context.setLineDash([]);
    if (box.is === "group") this.stack(box, context.strokeStyle);
    if (box.lane >= 0) {
      context.fillStyle = colours.lanes[box.lane % LANES];
      context.fillRect(box.x + 3, box.y + 5, 4, box.h - 10);
    }
    if (this.k * 13 >= SMALL) this.words(box, ink, soft, state);
    else this.bigTitle(box, ink);
    if (box.is === "group") this.bar(box);
    [...app.changed?.signs(box) ?? [], ...this.wrong(box)].forEach((sign, place) => this.flag(sign, box.x + box.w - 4 - place * 16, box.y));
    context.globalAlpha = 1;
  }

  alarming(box) {
    return this.app.model.wrong[box.node] === 1 || this.app.model.marksOf(box.node).some((/** @type {string} */ mark) => ALARMS.has(mark) && mark !== "not finite");
  }

  /** The sign of a finding on a box. */
  wrong(box) {
    const found = box.is === "group" ? this.app.tree.alarms[box.group] : this.app.model.wrong[box.node];
    return found ? ["!"] : [];
  }

  outline(box) {
    const { context } = this;
    context.beginPath();
    context.roundRect(box.x, box.y, box.w, box.h, box.is === "leaf" ? 0 : box.is === "group" ? 8 : 5);
  }

  /** A second outline behind a folded box. */
  stack(box, colour) {
    const { context } = this;
    context.beginPath();
    context.moveTo(box.x + 6, box.y + box.h + 3);
    context.lineTo(box.x + box.w - 6, box.y + box.h + 3);
    context.lineWidth = 1.3;
    context.strokeStyle = colour;
    context.stroke();
  }

  words(box, ink, soft, state) {
    const { context, app, colours } = this;
    context.textBaseline = "middle";
    context.textAlign = "left";
    const x = box.x + 10;
    context.font = FONTS.title;
    context.fillStyle = ink;
    const badges = box.is === "group" ? [...structureSign(app, box.group), "⊞"] : app.model.marksOf(box.node).filter((/** @type {string} */ mark) => mark !== "not run");
    this.clipped(box.title, x, box.y + 17, box.w - 14 - badges.length * 15);
    const after = x + Math.min(context.measureText(box.title).width, box.w) + 5;
    context.font = FONTS.line;
    if (box.ordinal) context.fillText(box.ordinal, after, box.y + 18);
    badges.forEach((/** @type {string} */ badge, /** @type {number} */ place) => {
      context.fillStyle = ALARMS.has(badge) && state !== RUNNING ? colours.alarm : soft;
      context.font = FONTS.title;
      context.fillText(MARKS[badge] ?? badge, box.x + box.w - 18 - place * 15, box.y + 17);
    });
    context.font = FONTS.line;
    context.fillStyle = soft;
    const lines = [...box.lines];
    if (state === WAITING && box.is !== "group") {
      const [come, all] = app.states.gradients(box.node);
      if (all) lines[lines.length - 1] = `◌ ${come} of ${all}${box.is === "leaf" ? "" : " gradients"}`;
    } else if (state !== DONE && box.is !== "group" && lines.length) lines[lines.length - 1] = `${GLYPHS[state]} ${["not run", "", "ready", "running", "", "failed"][state]}`;
    lines.forEach((line, place) => this.clipped(line, x, box.y + 36 + place * 15, box.w - 16));
  }

  /** A sign on the upper edge of a box: what is new or gone there. @param {string} sign @param {number} x @param {number} y */
  flag(sign, x, y) {
    const { context, colours } = this;
    context.beginPath();
    context.arc(x, y, 7, 0, 7);
    context.fillStyle = colours.ink;
    context.fill();
    context.fillStyle = colours.page;
    context.font = FONTS.title;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(sign, x, y + 0.5);
  }

  /** Only a larger title when zoomed out; nothing if even that is illegible. */
  bigTitle(box, ink) {
    const { app, context } = this;
    const sign = box.is === "group" ? structureSign(app, box.group) : "";
    const fits = Math.min(9 / this.k, box.h * 0.55, 13 * box.w / box.titleWidth);
    const size = Math.max(fits, LEAST / this.k);
    if (size > box.h * 0.7) return;
    context.font = FONTS.title.replace("13px", `${size}px`);
    context.fillStyle = ink;
    context.textAlign = "left";
    context.textBaseline = "middle";
    const left = box.lane >= 0 ? 10 : 4;
    this.clipped(sign ? `${sign} · ${box.title}` : box.title, box.x + left, box.y + box.h / 2, box.w - left - 4);
  }

  /** A bar with the states of the nodes in a folded box. */
  bar(box) {
    const { context, app, colours } = this;
    if (!app.model.engineSeen) return;
    const counts = app.states.counts(app.nodesUnder(box.group));
    const all = counts.reduce((sum, each) => sum + each, 0) || 1;
    const look = [[DONE, colours.soft], [FAILED, colours.alarm], [RUNNING, colours.accent], [READY, colours.accent], [WAITING, colours.group.line]];
    let x = box.x + 10;
    const width = box.w - 20;
    const y = box.y + box.h - 10;
    for (const [state, colour] of /** @type {[number, string][]} */ (look)) {
      const part = width * counts[state] / all;
      context.fillStyle = colour;
      if (state === READY) {
        context.strokeStyle = colour;
        context.lineWidth = 1;
        if (part) context.strokeRect(x + 0.5, y + 0.5, Math.max(part - 1, 0.5), 3);
      } else context.fillRect(x, y, part, 4);
      x += part;
    }
  }

  inRange(box) {
    const { app } = this;
    const [from, to] = /** @type {[number, number]} */ (app.range);
    const nodes = box.is === "group" ? app.nodesUnder(box.group) : [box.node];
    const { begun_t: begun, ended_t: ended } = app.model.runs.columns;
    return [...nodes].some((node) => [...app.model.runsOf.of(node)].some((run) => begun[run] <= to && (ended[run] < 0 || ended[run] >= from) && begun[run] >= 0));
  }

  /** The outline of the selection. */
  ring() {
    const { context, app, colours } = this;
    const target = app.node >= 0 ? app.picture.boxFor(app.node) : app.group >= 0 ? app.picture.boxOrFrame(app.group) : null;
    if (!target) return;
    context.beginPath();
    const away = 4;
    context.roundRect(target.x - away, target.y - away, target.w + 2 * away, target.h + 2 * away, 9);
    context.lineWidth = Math.max(2.2, 2 / this.k);
    context.strokeStyle = colours.ink;
    context.stroke();
  }
}
