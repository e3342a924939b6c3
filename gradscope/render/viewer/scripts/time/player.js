/** Plays what the lanes show. */

const PLAYED_IN = 10_000;

/** Moves the playhead through the window of the lanes in ten seconds. */
export class Player {
  /** @param {import("./timeline.js").Timeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
    this.playing = 0;
  }

  /** Play, or stop. */
  play() {
    if (this.playing) this.stop();
    else this.start();
  }

  start() {
    const { axis, app } = this.timeline;
    const [from, to] = [axis.from, axis.to];
    if (app.t < from || app.t >= to) this.timeline.goTo(from);
    this.show("■");
    let before = performance.now();
    const turn = (/** @type {number} */ now) => {
      const t = Math.min(app.t + Math.max(now - before, 0) / PLAYED_IN * (to - from), to);
      before = now;
      this.timeline.goTo(t);
      if (t >= to) this.stop();
      else this.playing = requestAnimationFrame(turn);
    };
    this.playing = requestAnimationFrame(turn);
  }

  stop() {
    cancelAnimationFrame(this.playing);
    this.playing = 0;
    this.show("▶");
  }

  /** @param {string} sign */
  show(sign) {
    /** @type {Text} */ (/** @type {HTMLElement} */ (document.getElementById("play")).firstChild).data = sign;
  }
}
