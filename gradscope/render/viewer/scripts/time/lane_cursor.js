/** The keyboard in the lanes: arrow keys go from bar to bar, Enter selects. */

/** @typedef {import("./lane_list.js").Lane} Lane */

/** The bar that the keyboard is at. */
export class LaneCursor {
  /** @param {import("./timeline.js").Timeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
    this.live = /** @type {HTMLElement} */ (document.getElementById("live"));
    /** @type {Lane | null} */
    this.lane = null;
    this.at = -1;
    timeline.canvas.addEventListener("keydown", (event) => this.key(event));
    timeline.canvas.addEventListener("blur", () => timeline.card.hide());
  }

  clear() {
    this.lane = null;
    this.at = -1;
  }

  /** @param {Lane} lane @param {number} at */
  put(lane, at) {
    this.lane = lane;
    this.at = at;
  }

  /** @param {string} words for screen readers */
  say(words) {
    this.live.textContent = words;
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const acts = { ArrowRight: () => this.along(1), ArrowLeft: () => this.along(-1), ArrowDown: () => this.across(1), ArrowUp: () => this.across(-1), Enter: () => this.choose() };
    const act = acts[/** @type {keyof typeof acts} */ (event.key)];
    if (!act || event.key === "Enter" && !this.lane) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  /** The lanes that hold bars. */
  get lanes() {
    return this.timeline.lanes.filter((lane) => lane.form === "bars");
  }

  /** To the next bar of the lane. @param {number} step */
  along(step) {
    if (!this.lane) {
      this.across(1);
      return;
    }
    const { row } = this.lane;
    this.at = Math.min(Math.max(this.at + step, 0), /** @type {import("./bar_row.js").BarRow} */ (row).length - 1);
    this.show();
  }

  /** To the lane below or above: to its bar at the same moment. @param {number} step */
  across(step) {
    const { lanes, timeline } = this;
    if (!lanes.length) return;
    const place = this.lane ? lanes.indexOf(this.lane) + step : 0;
    const t = this.lane ? /** @type {import("./bar_row.js").BarRow} */ (this.lane.row).begin[this.at] : timeline.app.t;
    this.lane = lanes[Math.min(Math.max(place, 0), lanes.length - 1)];
    const row = /** @type {import("./bar_row.js").BarRow} */ (this.lane.row);
    this.at = Math.min(Math.max(row.begunBy(t) - 1, 0), row.length - 1);
    this.show();
  }

  /** Show the bar, and say its facts. */
  show() {
    const { timeline } = this;
    const { axis, scroller, painter, card } = timeline;
    const lane = /** @type {Lane} */ (this.lane);
    const row = /** @type {import("./bar_row.js").BarRow} */ (lane.row);
    axis.reach(row.begin[this.at], row.end[this.at]);
    if (lane.y < scroller.scrollTop + 24) scroller.scrollTop = lane.y - 24;
    else if (lane.y + lane.h > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = lane.y + lane.h - scroller.clientHeight;
    painter.paint();
    timeline.overview.front();
    const { left, top } = timeline.canvas.getBoundingClientRect();
    const x = Math.min(Math.max(axis.x(row.begin[this.at]), axis.left), axis.right);
    card.show(left + x, top + lane.y + lane.h - scroller.scrollTop, ...timeline.pointer.ofBar(lane, this.at));
    this.say(card.line);
  }

  choose() {
    const lane = /** @type {Lane} */ (this.lane);
    this.timeline.choose(lane.kind, /** @type {import("./bar_row.js").BarRow} */ (lane.row).ids[this.at]);
  }
}
