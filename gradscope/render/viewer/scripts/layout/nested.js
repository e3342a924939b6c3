/** Frames in frames: each is laid out by itself, and then is one piece of the frame around it. The twin of scene/layout/nested.py. */

import { sideBySide } from "./between.js";
import { FIRST, LAST, WHOLE, columnsOf, partOf } from "./columns.js";
import { Piece, WIDEST_ROW, ranks } from "./layered.js";

/**
 * A box to be placed; or a frame, of which the size is that of its title. `parent`: the frame around it, "" at the top.
 * @typedef {{id: string, width: number, height: number, parent: string, title: string}} Sized
 * @typedef {{tail: string, head: string, label: number, loose: boolean}} Link an arrow to be led from one box to another
 * @typedef {{x: number, y: number, width: number, height: number}} Rect
 * @typedef {import("./layered.js").Point} Point @typedef {import("./layered.js").Way} Way
 * @typedef {import("./columns.js").Measure} Measure
 * @typedef {{link: number, points: Point[], begins: boolean, ends: boolean}} Course an arrow, or one end of it
 * @typedef {{link: number, lies: number, points: Point[], cut: number}} Part of a link's course, inside one frame
 * @typedef {{width: number, height: number, pieces: Map<string, Piece>, parts: Part[], stubs: [Piece, string][]}} Inside a frame with what is in it
 * @typedef {{width: number, height: number, boxes: Map<string, Rect>, frames: Map<string, Rect>, courses: Course[], stubs: {place: Rect, text: string}[]}} Placed
 */

const PAD = 12;
const AROUND_TITLE = 16;
const BETWEEN_DOORS = 9;
const [OUT, AMONG, IN] = [0, 1, 2];

/** Place boxes in frames. A frame stands after the one around it. Columns end at `tallest`. */
export class Nest {
  /** @param {Sized[]} boxes @param {Sized[]} frames @param {Link[]} links @param {number} tallest @param {Measure} measure */
  constructor(boxes, frames, links, tallest, measure) {
    this.links = links;
    this.tallest = tallest;
    this.measure = measure;
    this.sized = new Map([...frames, ...boxes].map((each) => [each.id, each]));
    this.frames = new Map(frames.map((frame) => [frame.id, frame]));
    /** @type {Map<string, string[]>} */
    this.children = new Map([["", []], ...frames.map((frame) => /** @type {[string, string[]]} */ ([frame.id, []]))]);
    for (const { id, parent } of this.sized.values()) this.children.get(parent).push(id);
    this.around = new Map([...this.sized.keys()].map((id) => [id, this.outwardOf(id)]));
    /** @type {Map<string, Map<number, number>>} by frame and link: how it lies there */
    this.lies = new Map([...this.children.keys()].map((id) => [id, new Map()]));
    links.forEach((link, number) => this.divide(link, number));
    /** @type {Map<string, Inside>} */
    this.inside = new Map();
    for (const frame of [...[...this.frames.keys()].reverse(), ""]) this.inside.set(frame, this.arranged(frame));
  }

  /** The frames around a box or a frame, innermost first, and last the picture: "". @param {string} id */
  outwardOf(id) {
    const found = [];
    for (let each = this.sized.get(id).parent; each; each = this.sized.get(each).parent) found.push(each);
    return [...found, ""];
  }

  /** @param {Link} link @param {number} number */
  divide({ tail, head }, number) {
    const [tails, heads] = [this.around.get(tail), this.around.get(head)];
    const common = tails.find((frame) => heads.includes(frame));
    for (const frame of tails.slice(0, tails.indexOf(common))) this.lies.get(frame).set(number, OUT);
    this.lies.get(common).set(number, AMONG);
    for (const frame of heads.slice(0, heads.indexOf(common))) this.lies.get(frame).set(number, IN);
  }

  // One frame ----------------------------------------------------------------------------------

  /** @param {string} frame @returns {Inside} */
  arranged(frame) {
    const pieces = new Map(this.children.get(frame).map((id) => [id, this.piece(id)]));
    const lies = this.lies.get(frame);
    const ways = [...lies].map(([number, way]) => this.way(frame, pieces, number, way));
    const all = [...pieces.values()];
    const titles = (/** @type {number} */ way) => /** @type {[string, string]} */ ([this.sized.get(this.links[way].tail).title, this.sized.get(this.links[way].head).title]);
    const columns = columnsOf(all, ways, ranks(all, ways, WIDEST_ROW), this.tallest, titles, this.measure);
    const title = frame ? this.frames.get(frame) : { width: 0, height: 0 };
    const pad = frame ? PAD : 0;
    let top = frame ? title.height + PAD : 0;
    const { width: content, height: bottom, routes } = sideBySide(columns);
    let width = Math.max(content, title.width) + 2 * pad;
    const coming = /** @type {[number, number][]} */ (routes.map(({ link, points }) => [points[0][0], link]).filter(([, link]) => lies.get(link) === IN));
    let doors = doorsOf(coming, (width - content) / 2, title.width);
    if (doors.size) {
      width = Math.max(width, Math.max(...doors.values()) + pad);
      top += AROUND_TITLE;
      doors = doorsOf(coming, (width - content) / 2, title.width);
    }
    const [left, height] = [(width - content) / 2, top + bottom + pad];
    const stubs = columns.all.flatMap((column) => [...column.stubs]);
    for (const piece of [...all, ...stubs.map(([stub]) => stub)]) {
      piece.x += left;
      piece.y += top;
    }
    const led = routes.map(({ link, part, points }) => ({
      link, lies: lies.get(link), points: toEdges(points, left, top, height, lies.get(link), doors.get(link)), cut: part,
    }));
    return { width, height, pieces, parts: led, stubs };
  }

  /** @param {string} id */
  piece(id) {
    const sized = this.sized.get(id);
    if (!this.frames.has(id)) return new Piece(sized.width, sized.height);
    const inside = this.inside.get(id);
    const piece = new Piece(inside.width, inside.height, true);
    for (const part of inside.parts) {
      for (const cut of [WHOLE, FIRST, LAST]) {
        const way = partOf(part.link, cut);
        if (part.lies === OUT) piece.portsOut.set(way, part.points[part.points.length - 1][0]);
        if (part.lies === IN) piece.portsIn.set(way, part.points[0][0]);
      }
    }
    return piece;
  }

  /** @param {string} frame @param {Map<string, Piece>} pieces @param {number} number @param {number} lies @returns {Way} */
  way(frame, pieces, number, lies) {
    const link = this.links[number];
    const tail = lies === IN ? null : pieces.get(this.child(frame, link.tail));
    const head = lies === OUT ? null : pieces.get(this.child(frame, link.head));
    return { id: number, tail, head, label: tail && !tail.fixed ? link.label : 0, loose: link.loose };
  }

  /** The piece of a frame that a box is, or is in. @param {string} frame @param {string} id */
  child(frame, id) {
    const around = this.around.get(id);
    const at = around.indexOf(frame);
    return at ? around[at - 1] : id;
  }

  // All of it ----------------------------------------------------------------------------------

  /** @returns {Placed} */
  placed() {
    const whole = this.inside.get("");
    /** @type {Placed} */
    const found = { width: tenth(whole.width), height: tenth(whole.height), boxes: new Map(), frames: new Map(), courses: [], stubs: [] };
    const corners = new Map([["", /** @type {Point} */ ([0, 0])]]);
    /** @type {{key: number[], part: Part, corner: Point}[][]} */
    const parts = this.links.map(() => []);
    for (const frame of ["", ...this.frames.keys()]) {
      const [inside, corner] = [this.inside.get(frame), corners.get(frame)];
      const depth = frame ? this.around.get(frame).length : 0;
      for (const [id, piece] of inside.pieces) {
        if (this.frames.has(id)) corners.set(id, [corner[0] + piece.x, corner[1] + piece.y]);
        (this.frames.has(id) ? found.frames : found.boxes).set(id, rectOf(piece, corner));
      }
      for (const part of inside.parts) parts[part.link].push({ key: [part.lies, part.lies === OUT ? -depth : depth, part.cut], part, corner });
      for (const [piece, text] of inside.stubs) found.stubs.push({ place: rectOf(piece, corner), text });
    }
    parts.forEach((each, link) => {
      each.sort((one, other) => one.key[0] - other.key[0] || one.key[1] - other.key[1] || one.key[2] - other.key[2]);
      found.courses.push(...joined(link, each));
    });
    return found;
  }
}

/** Where ways enter a frame beside its title, of those that would go through it. @param {[number, number][]} coming @param {number} left @param {number} title @returns {Map<number, number>} */
function doorsOf(coming, left, title) {
  const beyond = PAD + title + 8;
  const straight = coming.map(([x]) => x + left).filter((x) => x >= beyond);
  const doors = new Map();
  let at = beyond;
  for (const [x, link] of [...coming].sort((one, other) => one[0] - other[0] || one[1] - other[1])) {
    if (!title || x + left >= beyond) continue;
    while (straight.some((other) => Math.abs(at - other) < BETWEEN_DOORS)) at += BETWEEN_DOORS;
    doors.set(link, at);
    at += BETWEEN_DOORS;
  }
  return doors;
}

/** Moved into the frame; from its upper edge if the way comes in, to its lower if it leaves. @param {Point[]} points @param {number} left @param {number} top @param {number} height @param {number} lies @param {number | undefined} door @returns {Point[]} */
function toEdges(points, left, top, height, lies, door) {
  const moved = points.map(([x, y]) => /** @type {Point} */ ([x + left, y + top]));
  if (lies === IN) moved.unshift([moved[0][0], top]);
  if (lies === IN && door !== undefined) moved.unshift([door, 0], [door, top - AROUND_TITLE]);
  else if (lies === IN) moved.unshift([moved[0][0], 0]);
  if (lies === OUT) moved.push([moved[moved.length - 1][0], height]);
  return moved;
}

/** The parts of a link joined into one course, or into two where it is cut. @param {number} link @param {{part: Part, corner: Point}[]} parts @returns {Course[]} */
function joined(link, parts) {
  const found = [];
  /** @type {Point[]} */
  let points = [];
  let begins = true;
  const close = (/** @type {boolean} */ ends) => {
    if (points.length) found.push({ link, points: tidy(points), begins, ends });
    points = [];
  };
  for (const { part, corner: [x, y] } of parts) {
    if (part.cut === LAST) {
      close(false);
      begins = false;
    }
    for (const [px, py] of part.points) points.push([px + x, py + y]);
    if (part.cut === FIRST) close(false);
  }
  close(true);
  return found;
}

/** Rounded, without points that say nothing. @param {Point[]} points @returns {Point[]} */
function tidy(points) {
  /** @type {Point[]} */
  const kept = [];
  for (const [x, y] of points) {
    const point = /** @type {Point} */ ([tenth(x), tenth(y)]);
    const last = kept[kept.length - 1];
    if (last && point[0] === last[0] && point[1] === last[1]) continue;
    if (kept.length > 1 && last[0] === kept[kept.length - 2][0] && last[0] === point[0]) kept.pop();
    kept.push(point);
  }
  return kept;
}

/** @param {Piece} piece @param {Point} corner @returns {Rect} */
function rectOf(piece, [x, y]) {
  return { x: tenth(piece.x + x), y: tenth(piece.y + y), width: tenth(piece.width), height: tenth(piece.height) };
}

/** Rounded to a tenth; what is in the middle to the even one, as Python does. @param {number} number */
function tenth(number) {
  const quarters = number * 4;
  if (quarters === Math.round(quarters) && quarters % 2) return 2 * Math.round(number * 5) / 10;
  return Number(number.toFixed(1));
}
