/** The graph panel: the visible part of the picture, and its mouse and touch input. */

import { cardFacts } from "./card_facts.js";
import { Painter } from "../paint/paint.js";
import { GLYPHS, WORDS } from "../core/state.js";
import { duration, plural } from "../core/words.js";

/** @typedef {import("../core/app.js").App} App */

const NEAREST = 3;
const EDGE = 30;

/** The canvas with the graph. */
export class GraphPanel {
  /** @param {App} app @param {import("../paint/paint.js").Colours} colours @param {import("./hover_card.js").HoverCard} card @param {string} [suffix] of the ids of its elements */
  constructor(app, colours, card, suffix = "") {
    this.app = app;
    this.card = card;
    this.suffix = suffix;
    this.canvas = /** @type {HTMLCanvasElement} */ (document.getElementById(`graph${suffix}`));
    this.map = /** @type {HTMLCanvasElement} */ (document.getElementById(`map${suffix}`));
    this.live = /** @type {HTMLElement} */ (document.getElementById("live"));
    this.painter = new Painter(/** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d")), app, colours);
    this.colours = colours;
    this.view = { x: 0, y: 0, k: 1, width: 1, height: 1 };
    this.hovered = "";
    this.asked = false;
    this.pointers = new Map();
    this.dragged = 0;
    new ResizeObserver(() => this.resize()).observe(/** @type {Element} */ (this.canvas.parentElement));
    this.listen();
    this.followed = new Set();
    this.turnTo(app);
  }

  /** Show this graph. @param {App} app */
  turnTo(app) {
    this.app = app;
    this.painter.app = app;
    if (!this.suffix) this.canvas.setAttribute("aria-label", app.model.isForward ? "The forward graph. Arrow keys follow tensors." : "The backward graph. Arrow keys follow gradients.");
    if (!this.followed.has(app)) app.follow((changes) => { if (this.app === app) this.update(changes); });
    this.followed.add(app);
    if (this.view.width <= 1) return;
    this.fit();
    if (app.node >= 0 || app.group >= 0) this.centre();
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const name of /** @type {const} */ (["pointerup", "pointercancel"])) canvas.addEventListener(name, (event) => this.release(event));
    canvas.addEventListener("pointerleave", () => { this.hover(""); this.card.hide(); });
    canvas.addEventListener("dblclick", (event) => this.openAt(event));
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), event.offsetX, event.offsetY);
    }, { passive: false });
    this.map.addEventListener("pointerdown", (event) => this.jump(event));
    this.on("zoom-in", () => this.zoom(1.3));
    this.on("zoom-out", () => this.zoom(1 / 1.3));
    this.on("zoom-all", () => this.fit());
  }

  /** @param {string} id @param {() => void} act */
  on(id, act) {
    /** @type {HTMLElement} */ (document.getElementById(id + this.suffix)).addEventListener("click", act);
  }

  /** @param {Set<import("../core/app.js").Change>} changes */
  update(changes) {
    if (changes.has("backward")) this.fit();
    else if (changes.has("picture")) this.keepPlace();
    if (changes.has("selection") && this.app.centre) this.centre();
    if (changes.has("selection") && !this.suffix) this.say();
    this.paintSoon();
  }

  resize() {
    const { clientWidth, clientHeight } = /** @type {HTMLElement} */ (this.canvas.parentElement);
    const first = this.view.width <= 1;
    const whole = first || this.isWhole;
    this.view.width = clientWidth;
    this.view.height = clientHeight;
    for (const [canvas, width, height] of /** @type {[HTMLCanvasElement, number, number][]} */ ([[this.canvas, clientWidth, clientHeight], [this.map, 150, 100]])) {
      canvas.width = Math.max(1, Math.round(width * devicePixelRatio));
      canvas.height = Math.max(1, Math.round(height * devicePixelRatio));
    }
    if (whole) this.fit();
    if (first && this.app.centre) this.centre();
    this.paint();
  }

  /** Fit the whole picture or, if that is illegible, its beginning. */
  fit() {
    const { picture } = this.app;
    const { view } = this;
    const whole = Math.min((view.width - 2 * EDGE) / picture.width, (view.height - 2 * EDGE) / picture.height, 1.4);
    view.k = Math.max(whole, 0.02);
    view.x = (view.width - picture.width * view.k) / 2;
    view.y = Math.max((view.height - picture.height * view.k) / 2, EDGE);
    this.isWhole = true;
    this.anchor = null;
    this.paintSoon();
  }

  /** @param {number} factor @param {number} [x] @param {number} [y] */
  zoom(factor, x = this.view.width / 2, y = this.view.height / 2) {
    const { view } = this;
    const k = Math.min(Math.max(view.k * factor, 0.02), NEAREST);
    view.x = x - (x - view.x) * k / view.k;
    view.y = y - (y - view.y) * k / view.k;
    view.k = k;
    this.isWhole = false;
    this.paintSoon();
  }

  pan(dx, dy) {
    this.view.x += dx;
    this.view.y += dy;
    this.isWhole = false;
    this.paintSoon();
  }

  get target() {
    const { app } = this;
    return app.node >= 0 ? app.picture.boxFor(app.node) : app.group >= 0 ? app.picture.boxOrFrame(app.group) : null;
  }

  /** Scroll to the selection, and zoom in if its text is too small. */
  centre() {
    const { target, view } = this;
    if (!target) return;
    const fits = Math.min((view.width - 2 * EDGE) / target.w, (view.height - 2 * EDGE) / target.h);
    view.k = Math.min(Math.max(view.k, 0.75), Math.max(fits, 0.05), NEAREST);
    view.x = view.width / 2 - (target.x + target.w / 2) * view.k;
    view.y = view.height / 2 - (target.y + target.h / 2) * view.k;
    this.isWhole = false;
  }

  /** After opening or folding: keep the clicked box in place. */
  keepPlace() {
    const { anchor, app, view } = this;
    this.anchor = null;
    if (!anchor) {
      if (this.isWhole) this.fit();
      return;
    }
    const item = app.picture.boxOrFrame(anchor.part);
    if (!item) return;
    if (this.isWhole && (item.w * view.k > view.width || item.h * view.k > view.height)) {
      this.fit();
      return;
    }
    const into = (/** @type {number} */ at, /** @type {number} */ size, /** @type {number} */ room) => Math.max(Math.min(at, room - size - EDGE), Math.min(at, EDGE));
    view.x = into(anchor.x, item.w * view.k, view.width) - item.x * view.k;
    view.y = into(anchor.y, item.h * view.k, view.height) - item.y * view.k;
    this.isWhole = false;
  }

  /** Open or fold a group or, with ~node, the inside of a node. @param {number} part */
  toggle(part) {
    const item = this.app.picture.boxOrFrame(part);
    if (item) this.anchor = { part, x: item.x * this.view.k + this.view.x, y: item.y * this.view.k + this.view.y };
    this.app.toggle(part);
  }

  // Hands --------------------------------------------------------------------------------------

  /** @param {number} x @param {number} y @returns {any} the box there, or the frame whose title is there */
  at(x, y) {
    const { view, app } = this;
    const [px, py] = [(x - view.x) / view.k, (y - view.y) / view.k];
    const slack = Math.max(0, 5 / view.k - 4);
    const inside = (item, high) => px >= item.x - slack && px <= item.x + item.w + slack && py >= item.y - slack && py <= item.y + high + slack;
    for (const box of app.picture.all) if (inside(box, box.h)) return box;
    for (const frame of [...app.picture.frames].reverse()) if (inside(frame, Math.min(28 / Math.min(view.k, 1), frame.h))) return frame;
    return null;
  }

  /** @param {PointerEvent} event */
  press(event) {
    this.card.hide();
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    this.dragged = 0;
  }

  /** @param {PointerEvent} event */
  move(event) {
    const before = this.pointers.get(event.pointerId);
    const now = [event.offsetX, event.offsetY];
    if (!before) {
      const found = this.at(now[0], now[1]);
      this.canvas.classList.toggle("on", Boolean(found));
      this.hover(found && !found.items ? found.key : "");
      if (found) this.card.show(event.clientX, event.clientY, this.inFull(found), cardFacts(this.app, found));
      else this.card.hide();
      return;
    }
    this.dragged += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
    if (this.pointers.size === 2) {
      const [other] = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
      const distance = (/** @type {number[]} */ place) => Math.hypot(place[0] - other[0], place[1] - other[1]);
      this.zoom(distance(now) / Math.max(distance(before), 1), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
    } else if (this.dragged > 4) {
      this.canvas.classList.add("dragging");
      this.pan(now[0] - before[0], now[1] - before[1]);
    }
    this.pointers.set(event.pointerId, now);
  }

  /** The full name of a box or frame. @param {any} item */
  inFull(item) {
    const { model, tree } = this.app;
    if (!item) return "";
    if (item.is === "ghost") return `${item.title}: gone since ${this.app.changed?.facts.names[0]}`;
    if (item.is === "inside") return tree.insides.fullName(item.op);
    if (item.region >= 0) return item.title + item.more;
    return item.items || item.is === "group" ? tree.title(item.group) + (item.more ?? "") : model.title(item.node);
  }

  /** @param {PointerEvent} event */
  release(event) {
    if (!this.pointers.delete(event.pointerId)) return;
    this.canvas.classList.remove("dragging");
    if (this.dragged > 4 || event.type === "pointercancel") return;
    const found = this.at(event.offsetX, event.offsetY);
    if (!found) this.app.clear();
    else if (found.is === "ghost") this.app.choseGhost?.(found.ghost);
    else if (found.region >= 0) this.app.selectNode(found.region, false);
    else if (found.items || found.is === "group") this.app.selectGroup(found.group, false);
    else this.app.selectNode(found.node, false);
  }

  /** @param {MouseEvent} event */
  openAt(event) {
    const found = this.at(event.offsetX, event.offsetY);
    if (!found) return;
    if (found.region >= 0) this.toggle(~found.region);
    else if (found.items || found.is === "group") this.toggle(found.group);
    else if (this.app.picture.isFolded(found)) this.toggle(~found.node);
  }

  /** @param {PointerEvent} event */
  jump(event) {
    const { picture } = this.app;
    const k = this.mapScale;
    this.view.x = this.view.width / 2 - (event.offsetX - (150 - picture.width * k) / 2) / k * this.view.k;
    this.view.y = this.view.height / 2 - (event.offsetY - (100 - picture.height * k) / 2) / k * this.view.k;
    this.isWhole = false;
    this.paintSoon();
  }

  /** @param {string} key */
  hover(key) {
    if (key === this.hovered) return;
    this.hovered = key;
    this.paintSoon();
  }

  // Painting -----------------------------------------------------------------------------------

  paintSoon() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => this.paint());
  }

  paint() {
    this.asked = false;
    this.painter.paint(this.view, this.hovered);
    this.paintMap();
  }

  get mapScale() {
    const { picture } = this.app;
    return Math.min(140 / picture.width, 90 / picture.height);
  }

  paintMap() {
    const { view, colours } = this;
    const { picture } = this.app;
    const shown = !this.isWhole && picture.all.length > 8;
    this.map.hidden = !shown;
    if (!shown) return;
    const context = /** @type {CanvasRenderingContext2D} */ (this.map.getContext("2d"));
    const k = this.mapScale;
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    context.clearRect(0, 0, 150, 100);
    context.translate((150 - picture.width * k) / 2, (100 - picture.height * k) / 2);
    context.fillStyle = colours.arrow;
    for (const box of picture.all) context.fillRect(box.x * k, box.y * k, Math.max(box.w * k, 1), Math.max(box.h * k, 1));
    context.strokeStyle = colours.accent;
    context.lineWidth = 1.5;
    context.strokeRect(-view.x / view.k * k, -view.y / view.k * k, view.width / view.k * k, view.height / view.k * k);
  }

  /** Announce the selection to screen readers. */
  say() {
    this.live.textContent = this.described;
  }

  get described() {
    const { app } = this;
    const { model, tree } = app;
    if (app.group >= 0) return `${tree.title(app.group)}: ${plural(tree.nodeCount[app.group], "node")}`;
    if (app.node < 0) return "";
    const parts = [model.title(app.node)];
    const state = app.states.of[app.node];
    if (model.engineSeen && app.states.has(app.node)) parts.push(`${GLYPHS[state]} ${WORDS[state]}`);
    const [come, all] = app.states.gradients(app.node);
    if (all) parts.push(`${come} of ${plural(all, "gradient")}`);
    const frame = model.frameOf(app.node);
    if (frame >= 0) parts.push(model.place(frame));
    const run = app.runOf(app.node);
    if (run >= 0) parts.push(duration(model.runs.get("self_ns")[run]));
    return parts.join(", ");
  }
}
