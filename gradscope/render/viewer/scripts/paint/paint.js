/** Paints boxes, frames and arrows. All colours come from the style sheet. */

import { heatOf, hottest, shadeOf } from "../core/heat.js";
import { FONTS } from "../core/picture.js";
import { STRUCTURE_COLORS, structureAround, structureSign } from "../core/structures.js";
import { DONE, FAILED, GLYPHS, NOT_RUN, READY, RUNNING, WAITING } from "../core/state.js";
import { TITLE } from "../core/layout.js";
import { INFERRED, LEAST, paintArrows, paintShapes, paintStubs } from "./arrows.js";

/** The glyphs of marks. */
export const MARKS = /** @type {Record<string, string>} */ ({
  "backward starts here": "▶", "in focus": "◎", "first NaN produced here": "✖", "first Inf produced here": "✖", "not finite": "△", raised: "✖",
  "not run": "○", "gradient returned (inputs=)": "◆", "ran inside another node": "◇", "has hooks": "⚑", "writes in place": "✎",
});
const ALARMS = new Set(["first NaN produced here", "first Inf produced here", "not finite", "raised"]);
const SMALL = 7;
export const LANES = 6;

/** The colours of the style sheet, read once for each look. */
export class Colours {
  constructor() {
    this.page = this.ink = this.soft = this.code = this.arrow = this.alarm = this.accent = "";
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

  /** @param {{x: number, y: number, k: number, width: number, height: number}} view @param {string} hovered key of a box @param {number} [scale] pixels of the canvas for each of the view */
  paint(view, hovered, scale = devicePixelRatio) {
    const { context, app, colours } = this;
    const { picture } = app;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.fillStyle = colours.page;
    context.fillRect(0, 0, view.width, view.height);
    context.setTransform(scale * view.k, 0, 0, scale * view.k, scale * view.x, scale * view.y);
    this.k = view.k;
    this.seen = { x0: -view.x / view.k, y0: -view.y / view.k, x1: (view.width - view.x) / view.k, y1: (view.height - view.y) / view.k };
    this.lit = this.litBy(hovered);
    this.dims = app.range !== null && picture.all.some((/** @type {any} */ box) => this.inRange(box));
    this.hottest = app.coloring === "kind" ? 1 : hottest(app);
    for (const frame of [...picture.frames].reverse()) this.frame(frame);
    paintArrows(this);
    paintStubs(this);
    for (const frame of picture.frames) this.frameTitle(frame);
    for (const box of picture.all) if (this.isSeen(box)) this.box(box);
    if (app.shapes) paintShapes(this);
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
    if (frame.region >= 0) context.setLineDash(INFERRED);
    const number = app.coloring === "structure" ? app.model.groups.get("structure")[frame.group] : -1;
    context.strokeStyle = number < 0 ? colours.group.line : colours.structures[number % STRUCTURE_COLORS].line;
    context.stroke();
    context.setLineDash([]);
  }

  /** Painted over the arrows. */
  frameTitle(frame) {
    const { app, context, colours } = this;
    const largest = Math.max(12, Math.min(11 / this.k, 22));
    if (!this.isSeen(frame) || this.k * largest < 4) return;
    context.font = FONTS.frame.replace("12px", `${largest}px`);
    const sign = frame.region < 0 ? structureSign(app, frame.group) : "";
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
    if (box.is === "group") return colours.kinds[app.tree.mainKind[box.group]];
    return colours.kinds[app.model.nodes.get("kind")[box.node]];
  }

  box(box) {
    if (box.is === "ghost") {
      this.ghost(box);
      return;
    }
    if (box.is === "inside") {
      this.inside(box);
      return;
    }
    const { context, app, colours } = this;
    const counts = box.is === "group" && app.model.engineSeen ? app.states.counts(app.tree.nodesUnder(box.group)) : null;
    const state = counts ? app.states.together(counts) : box.is !== "group" && app.model.engineSeen ? app.states.of[box.node] : DONE;
    const paint = this.paintOf(box);
    context.globalAlpha = this.dims && !this.inRange(box) ? 0.25 : 1;
    this.outline(box);
    context.lineWidth = 1.3;
    context.setLineDash([]);
    let ink = colours.ink;
    let soft = colours.soft;
    if (state === DONE) [context.fillStyle, context.strokeStyle] = [paint.fill, paint.line];
    else [context.fillStyle, context.strokeStyle] = [colours.page, colours.arrow];
    if (state === WAITING || state === NOT_RUN) context.setLineDash(state === WAITING ? [4, 3] : [1.5, 3]);
    if (state === READY || state === RUNNING) [context.strokeStyle, context.lineWidth] = [colours.accent, 2.4];
    if (state === RUNNING && !counts) {
      context.fillStyle = colours.accent;
      [ink, soft] = [colours.page, colours.page];
    }
    const alarmed = state === FAILED || (box.is === "group" ? app.tree.alarms[box.group] > 0 : this.alarming(box));
    if (alarmed && state !== RUNNING) [context.strokeStyle, context.lineWidth] = [colours.alarm, 2];
    if (alarmed && state === FAILED) context.fillStyle = colours.alarmFill;
    context.fill();
    if (counts && state === RUNNING) this.progress(box, paint.fill, counts);
    context.stroke();
    context.setLineDash([]);
    if (box.is === "group") this.stack(box, context.strokeStyle);
    if (box.lane >= 0) {
      context.fillStyle = colours.lanes[box.lane % LANES];
      context.fillRect(box.x + 3, box.y + 5, 4, box.h - 10);
    }
    if (this.k * 13 >= SMALL) this.words(box, ink, soft, state, counts);
    else this.bigTitle(box, ink);
    [...app.changed?.signs(box) ?? [], ...this.wrong(box)].forEach((sign, place) => this.flag(sign, box.x + box.w - 4 - place * 16, box.y));
    context.globalAlpha = 1;
  }

  /** Fill a folded box as far as its nodes have run. @param {any} box @param {string} fill @param {number[]} counts by state */
  progress(box, fill, counts) {
    const { context } = this;
    const share = counts[DONE] / counts.reduce((sum, each) => sum + each, 0);
    context.save();
    context.clip();
    context.fillStyle = fill;
    context.fillRect(box.x, box.y, box.w * share, box.h);
    context.restore();
    this.outline(box);
  }

  /** A node that only the earlier trace has. @param {any} box */
  ghost(box) {
    const { colours } = this;
    this.unseen(box, { fill: colours.page, line: colours.soft }, [6, 4], colours.soft);
    this.flag("−", box.x + box.w - 4, box.y);
  }

  /** An operation inside a compiled region, which has no state. @param {any} box */
  inside(box) {
    const { app, colours } = this;
    const kind = colours.kinds[app.tree.insides.ops.get("kind")[box.op]];
    this.unseen(box, app.coloring === "kind" ? kind : { fill: colours.page, line: colours.arrow }, INFERRED, colours.ink);
  }

  /** A box of what was not observed in this trace. @param {any} box @param {{fill: string, line: string}} paint @param {number[]} dashes @param {string} ink of its title */
  unseen(box, paint, dashes, ink) {
    const { context, colours } = this;
    this.outline(box);
    context.setLineDash(dashes);
    [context.fillStyle, context.strokeStyle, context.lineWidth] = [paint.fill, paint.line, 1.4];
    context.fill();
    context.stroke();
    context.setLineDash([]);
    context.textBaseline = "middle";
    context.textAlign = "left";
    context.fillStyle = ink;
    if (this.k * 13 < SMALL) {
      this.bigTitle(box, ink);
      return;
    }
    context.font = FONTS.title;
    this.clipped(box.title, box.x + 10, box.y + 17, box.w - 14);
    context.font = FONTS.line;
    context.fillStyle = colours.soft;
    box.lines.forEach((/** @type {string} */ line, /** @type {number} */ place) => this.clipped(line, box.x + 10, box.y + 36 + place * 15, box.w - 16));
  }

  alarming(box) {
    return this.app.model.wrong[box.node] === 1 || this.app.model.marksOf(box.node).some((/** @type {string} */ mark) => ALARMS.has(mark) && mark !== "not finite");
  }

  /** The sign of a finding on a box, or of values that are not finite where no other sign says so. */
  wrong(box) {
    const { tree, model } = this.app;
    const group = box.is === "group";
    if (group ? tree.alarms[box.group] : model.wrong[box.node]) return ["!"];
    const notFinite = group ? tree.notFinite[box.group] > 0 : this.k * 13 < SMALL && model.has(box.node, "not finite");
    return notFinite ? ["△"] : [];
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

  words(box, ink, soft, state, counts) {
    const { context, app, colours } = this;
    context.textBaseline = "middle";
    context.textAlign = "left";
    const x = box.x + 10;
    context.font = FONTS.title;
    context.fillStyle = ink;
    const badges = box.is === "group" ? [...structureSign(app, box.group), "⊞"] : [...app.picture.isFolded(box) ? ["⊞"] : [], ...app.model.marksOf(box.node).filter((/** @type {string} */ mark) => mark !== "not run")];
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
      lines[lines.length - 1] = all ? `◌ ${come} of ${all}${box.is === "leaf" ? "" : " gradients"}` : "◌ waiting";
    } else if (counts && state !== DONE && lines.length) lines[lines.length - 1] = folded(state, counts);
    else if (state !== DONE && box.is !== "group" && lines.length) lines[lines.length - 1] = `${GLYPHS[state]} ${["not run", "", "ready", "running", "", "failed"][state]}`;
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

  inRange(box) {
    const { app } = this;
    const [from, to] = /** @type {[number, number]} */ (app.range);
    const nodes = box.is === "group" ? app.tree.nodesUnder(box.group) : [box.node];
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

/** What a folded box says of its nodes. @param {number} state @param {number[]} counts by state */
function folded(state, counts) {
  const all = counts.reduce((sum, each) => sum + each, 0);
  if (state === RUNNING || state === FAILED) return `${GLYPHS[state]} ${counts[DONE]} of ${all} done`;
  return `${GLYPHS[state]} ${state === NOT_RUN ? "not run" : state === READY ? "ready" : "waiting"}`;
}
