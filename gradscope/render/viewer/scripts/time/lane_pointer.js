/** The pointer over the lanes: it hovers over bars, selects them, measures periods and moves the playhead. */

import { RULER } from "./lane_list.js";

/** @typedef {import("./lane_list.js").Lane} Lane */
/** @typedef {import("./bar_painter.js").Piece} Piece */

const CLICK = 4;
const NEAR = 2;

/** Pointer and wheel of the lanes. */
export class LanePointer {
  /** @param {import("./timeline.js").Timeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
    this.pressed = -1;
    this.slides = false;
    const { canvas } = timeline;
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.release(event));
    canvas.addEventListener("pointercancel", () => { this.pressed = -1; });
    canvas.addEventListener("pointerleave", () => timeline.card.hide());
    canvas.addEventListener("wheel", (event) => {
      if (event.offsetX < timeline.axis.left) return; // over the names the lanes scroll
      timeline.card.hide();
      timeline.wheel(event, timeline.axis.timeAt(event.offsetX));
    }, { passive: false });
  }

  /** @param {PointerEvent} event */
  press(event) {
    const { timeline } = this;
    timeline.canvas.setPointerCapture(event.pointerId);
    timeline.card.hide();
    this.pressed = event.offsetX;
    this.slides = event.offsetY < RULER;
    if (this.slides) timeline.goTo(timeline.axis.timeAt(event.offsetX));
  }

  /** @param {PointerEvent} event */
  move(event) {
    const { timeline } = this;
    const { app, axis } = timeline;
    if (this.pressed < 0) this.hover(event);
    else if (this.slides) timeline.goTo(axis.timeAt(event.offsetX));
    else if (Math.abs(event.offsetX - this.pressed) > CLICK) {
      const ends = [this.pressed, event.offsetX].map((x) => axis.timeAt(Math.min(Math.max(x, axis.left), axis.right)));
      app.range = /** @type {[number, number]} */ (ends.sort((one, other) => one - other));
      app.tell("range");
    }
  }

  /** @param {PointerEvent} event */
  release(event) {
    const { timeline, pressed } = this;
    const { app, axis } = timeline;
    this.pressed = -1;
    if (pressed < 0 || this.slides) return;
    if (Math.abs(event.offsetX - pressed) > CLICK) {
      app.flush();
      timeline.cursor.say(timeline.measured.words);
      return;
    }
    app.range = null;
    app.tell("range");
    const found = this.at(event.offsetX, event.offsetY);
    if (found?.piece && found.piece.first === found.piece.last) {
      timeline.cursor.put(found.lane, found.piece.first);
      timeline.choose(found.lane.kind, /** @type {import("./bar_row.js").BarRow} */ (found.lane.row).ids[found.piece.first]);
    } else timeline.goTo(axis.timeAt(event.offsetX));
  }

  /** @param {PointerEvent} event */
  hover(event) {
    const { timeline } = this;
    const found = event.offsetX < timeline.axis.left ? null : this.at(event.offsetX, event.offsetY);
    timeline.canvas.style.cursor = event.offsetY < RULER || found?.piece ? "pointer" : "crosshair";
    const said = found && this.said(found, event.offsetX);
    if (said) timeline.card.show(event.clientX, event.clientY, ...said);
    else timeline.card.hide();
  }

  /** What is said of what is under the pointer. @param {{lane: Lane, piece: Piece | null}} found @param {number} x @returns {[string, [string, string][]] | null} */
  said({ lane, piece }, x) {
    const { facts, axis } = this.timeline;
    if (lane.form === "level") return facts.level(lane, axis.timeAt(x));
    if (!piece) return null;
    return piece.first === piece.last ? this.ofBar(lane, piece.first) : facts.block(lane, piece);
  }

  /** @param {Lane} lane @param {number} at @returns {[string, [string, string][]]} */
  ofBar(lane, at) {
    const id = /** @type {import("./bar_row.js").BarRow} */ (lane.row).ids[at];
    return [this.timeline.title(lane, id), this.timeline.facts.of(lane, id)];
  }

  /** The lane at a point, and the bar or block in it. @param {number} x @param {number} y @returns {{lane: Lane, piece: Piece | null} | null} */
  at(x, y) {
    const { timeline } = this;
    const down = y + timeline.scroller.scrollTop;
    const lane = y < RULER ? undefined : timeline.lanes.find((each) => down >= each.y && down < each.y + each.h + 1);
    if (!lane || lane.form === "name") return null;
    let [piece, away] = [/** @type {Piece | null} */ (null), NEAR + 1];
    for (const each of timeline.painter.painted.get(lane) ?? []) {
      const near = Math.max(each.x0 - x, x - each.x1, 0);
      if (near < away) [piece, away] = [each, near];
    }
    return { lane, piece };
  }
}
