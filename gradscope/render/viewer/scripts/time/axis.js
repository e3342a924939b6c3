/** The axis of time: its whole extent, the window that the lanes show, and where both lie on the screen. */

import { duration } from "../core/words.js";

const LEAST_NS = 40;
const LABEL = 118;
const NARROW_LABEL = 64;
const NARROW = 600;
const RIGHT = 14;
/** From so many steps on, a label in three digits is not exact: the labels are relative to the first one. */
const COARSE = 100;

/** One axis for the overview and the lanes: a moment is a number of nanoseconds since the page begins. */
export class Axis {
  constructor() {
    this.least = 0;
    this.most = 1;
    this.from = 0;
    this.to = 1;
    this.width = 0;
    this.left = 0;
    this.right = 1;
  }

  /** @param {number} width of the lanes in pixels */
  resize(width) {
    this.width = width;
    this.left = width < NARROW ? NARROW_LABEL : LABEL;
    this.right = Math.max(width - RIGHT, this.left + 1);
  }

  /** Set the whole extent, and show all of it. @param {number} least @param {number} most */
  extend(least, most) {
    [this.least, this.most] = [least, Math.max(most, least + 1)];
    this.whole();
  }

  whole() {
    [this.from, this.to] = [this.least, this.most];
  }

  get isWhole() {
    return this.from <= this.least && this.to >= this.most;
  }

  /** Show a period of time in the lanes. @param {number} from @param {number} to */
  show(from, to) {
    const length = Math.min(Math.max(to - from, LEAST_NS), this.most - this.least);
    this.from = Math.min(Math.max(from, this.least), this.most - length);
    this.to = this.from + length;
  }

  /** @param {number} factor @param {number} t the moment that stays where it is */
  zoom(factor, t) {
    const length = Math.min(Math.max((this.to - this.from) * factor, LEAST_NS), this.most - this.least);
    const from = t - (t - this.from) / (this.to - this.from) * length;
    this.show(from, from + length);
  }

  /** @param {number} share of the window */
  pan(share) {
    const length = this.to - this.from;
    this.show(this.from + share * length, this.to + share * length);
  }

  /** Move the window so that it contains a period, or its begin. @param {number} begin @param {number} [end] */
  reach(begin, end = begin) {
    if (end >= this.from && begin <= this.to) return false;
    const length = this.to - this.from;
    const middle = Math.min((begin + end) / 2, begin + length / 2);
    this.show(middle - length / 2, middle + length / 2);
    return true;
  }

  /** Where a moment lies in the lanes. @param {number} t @returns {number} in pixels */
  x(t) {
    return this.left + (t - this.from) / (this.to - this.from) * (this.right - this.left);
  }

  /** @param {number} x in pixels of the lanes @returns {number} */
  timeAt(x) {
    return this.from + (x - this.left) / (this.right - this.left) * (this.to - this.from);
  }

  /** Where a moment lies in the overview. @param {number} t @returns {number} in pixels */
  overviewX(t) {
    return this.left + (t - this.least) / (this.most - this.least) * (this.right - this.left);
  }

  /** @param {number} x in pixels of the overview @returns {number} a moment of the extent */
  overviewTime(x) {
    const t = this.least + (x - this.left) / (this.right - this.left) * (this.most - this.least);
    return Math.min(Math.max(t, this.least), this.most);
  }

  /** Round moments for labels. @param {number} from @param {number} to @returns {{t: number, text: string}[]} */
  ticks(from, to) {
    const wanted = (to - from) / Math.max(2, (this.right - this.left) / 110);
    const power = 10 ** Math.floor(Math.log10(wanted));
    const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= wanted) ?? wanted;
    const found = [];
    const first = Math.ceil((from - this.least) / step) * step;
    const isFar = first > COARSE * step;
    for (let tick = first; tick <= to - this.least; tick += step) {
      found.push({ t: tick + this.least, text: isFar && tick > first ? `+${duration(tick - first)}` : duration(tick) });
    }
    return found;
  }
}
