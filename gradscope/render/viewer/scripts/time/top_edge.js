/** The upper edge of the timeline: drag it, or press the arrow keys, to give the lanes more or less room. */

const KEPT = "gradscope.lanes";
const LEAST_LANES = 60;
const USUAL = 300;
const SHARE = 0.3;
const EDGE_STEP = 24;

/** Sets the height of the lanes, and remembers it for the session. */
export class TopEdge {
  /** @param {import("./timeline.js").Timeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
    this.element = /** @type {HTMLElement} */ (document.getElementById("time-edge"));
    this.chosen = Number(stored(KEPT)) || 0;
    this.height = 0;
    this.listen();
  }

  listen() {
    const { element } = this;
    let from = -1;
    let height = 0;
    element.addEventListener("pointerdown", (event) => {
      element.setPointerCapture(event.pointerId);
      [from, height] = [event.clientY, this.height];
    });
    element.addEventListener("pointermove", (event) => { if (from >= 0) this.choose(height + from - event.clientY); });
    element.addEventListener("pointerup", () => { from = -1; });
    element.addEventListener("pointercancel", () => { from = -1; });
    element.addEventListener("dblclick", () => this.choose(0));
    element.addEventListener("keydown", (event) => {
      const by = { ArrowUp: EDGE_STEP, ArrowDown: -EDGE_STEP }[event.key];
      if (!by) return;
      event.preventDefault();
      event.stopPropagation();
      this.choose(this.height + by);
    });
  }

  /** The most room that the lanes get. */
  get most() {
    return Math.max(Math.round(innerHeight * 0.75), LEAST_LANES);
  }

  /** @param {number} height 0 for the usual one */
  choose(height) {
    this.chosen = height > 0 ? Math.round(Math.min(Math.max(height, LEAST_LANES), this.most)) : 0;
    store(KEPT, String(this.chosen));
    this.fit();
    this.timeline.painter.paint();
  }

  /** Give the lanes the chosen room, or what they need. */
  fit() {
    const { timeline, element } = this;
    const usual = Math.min(Math.max(timeline.height, LEAST_LANES), USUAL, Math.max(innerHeight * SHARE, LEAST_LANES));
    this.height = Math.round(Math.min(this.chosen || usual, this.most));
    timeline.scroller.style.height = `${this.height}px`;
    timeline.canvas.style.height = `${this.height}px`;
    const below = /** @type {HTMLElement} */ (document.getElementById("lanes-below"));
    below.style.height = `${Math.max(timeline.height - this.height, 0)}px`;
    element.setAttribute("aria-valuemin", String(LEAST_LANES));
    element.setAttribute("aria-valuemax", String(this.most));
    element.setAttribute("aria-valuenow", String(this.height));
  }
}

/** @param {string} key */
function stored(key) {
  try {
    return sessionStorage.getItem(key);
  } catch {
    return null; // in a notebook's frame nothing is kept
  }
}

/** @param {string} key @param {string} value */
function store(key, value) {
  try {
    sessionStorage.setItem(key, value);
  } catch {
    // In a notebook's frame nothing is kept.
  }
}
