/** The edges between the panels, which a drag or the arrow keys move. */

const KEY_STEP = 24;
const LEAST_SIDE = 180;
const MOST_OF_WINDOW = 0.45;
const STORED = "gradscope-sides";

/** An edge of one of the sides. */
class Splitter {
  /** @param {HTMLElement} handle @param {HTMLElement} side @param {1 | -1} grows which way makes the side wider */
  constructor(handle, side, grows) {
    this.handle = handle;
    this.side = side;
    this.grows = grows;
    handle.addEventListener("pointerdown", (event) => {
      handle.setPointerCapture(event.pointerId);
      this.from = event.clientX - grows * side.offsetWidth;
    });
    handle.addEventListener("pointermove", (event) => {
      if (handle.hasPointerCapture(event.pointerId)) this.set(grows * (event.clientX - this.from));
    });
    handle.addEventListener("dblclick", () => this.set(0));
    handle.addEventListener("keydown", (event) => {
      const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!way) return;
      event.preventDefault();
      event.stopPropagation();
      this.set(side.offsetWidth + way * grows * KEY_STEP);
    });
    const kept = Number(recall()[side.id]);
    if (kept > 0) this.set(kept);
    else this.tell();
  }

  /** @param {number} width 0: as at first */
  set(width) {
    const main = /** @type {HTMLElement} */ (this.side.parentElement);
    const limited = width && Math.round(Math.min(Math.max(width, LEAST_SIDE), innerWidth * MOST_OF_WINDOW));
    if (limited) main.style.setProperty(`--${this.side.id}`, `${limited}px`);
    else main.style.removeProperty(`--${this.side.id}`);
    remember(this.side.id, limited);
    this.tell();
  }

  tell() {
    this.handle.setAttribute("aria-valuenow", String(Math.round(100 * this.side.offsetWidth / innerWidth)));
  }
}

/** @returns {Record<string, number>} the widths of this session */
function recall() {
  try {
    return JSON.parse(sessionStorage.getItem(STORED) ?? "{}");
  } catch {
    return {};
  }
}

/** @param {string} id @param {number} width */
function remember(id, width) {
  try {
    sessionStorage.setItem(STORED, JSON.stringify({ ...recall(), [id]: width }));
  } catch {
    // A page in a frame may have no storage: the widths last until it is closed.
  }
}

/** Make the edges of both sides movable. */
export function splitSides() {
  for (const [id, grows] of /** @type {[string, 1 | -1][]} */ ([["left", 1], ["right", -1]])) {
    const [handle, side] = [`split-${id}`, id].map((each) => /** @type {HTMLElement} */ (document.getElementById(each)));
    new Splitter(handle, side, grows);
  }
}
