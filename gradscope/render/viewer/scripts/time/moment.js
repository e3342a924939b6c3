/** Says where the playhead is: the time, what runs there, the event, and the step if another one is shown. */

import { count, duration } from "../core/words.js";

/** The words next to the playhead. */
export class Moment {
  /** @param {import("./timeline.js").Timeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
    this.app = timeline.app;
    this.output = /** @type {HTMLElement} */ (document.getElementById("now"));
    this.elsewhere = /** @type {HTMLElement} */ (document.getElementById("elsewhere"));
    this.elsewhere.addEventListener("click", () => this.follow());
  }

  say() {
    const { app, timeline } = this;
    const { axis } = timeline;
    const parts = [`${duration(app.t - axis.least)} of ${duration(axis.most - axis.least)}`, ...this.engine()];
    this.output.textContent = parts.filter(Boolean).join(" · ");
    this.output.title = this.output.textContent;
    timeline.overview.say(this.output.textContent);
    this.sayElsewhere();
  }

  /** The event, and what runs at the moment. @returns {string[]} */
  engine() {
    const { app } = this;
    const { events, facts } = app.model;
    if (!events.length || !app.model.engineSeen) return [this.running, app.model.whyUnseen];
    const [first, last] = app.events;
    if (app.event < first) return [`before event 1 of ${count(app.eventNumber(last))}`, this.running];
    const isOver = app.event === last && app.t > events.get("t")[last];
    const place = `${isOver ? "after " : ""}event ${count(app.eventNumber(app.event))} of ${count(app.eventNumber(last))}${app.backward < 0 ? "" : " of this backward"}`;
    if (app.t !== events.get("t")[app.event]) return [this.running || "nothing runs", place];
    const node = events.get("node")[app.event];
    const words = facts.events[events.get("kind")[app.event]].replaceAll("_", " ");
    return [place, node >= 0 ? `${words} ${app.model.title(node)}` : words];
  }

  get running() {
    return this.runningAt(this.app.t);
  }

  /** What runs at a moment: the innermost node, or call, or span. @param {number} t */
  runningAt(t) {
    const { bars } = this.timeline;
    for (const kind of /** @type {const} */ (["nodes", "calls", "spans"])) {
      const found = bars.running(kind, t);
      if (!found.length) continue;
      const titles = [...new Set(found.map((id) => bars.title(kind, id)))].join(", ");
      return kind === "spans" ? titles : `${titles} ${found.length > 1 ? "run" : "runs"}`;
    }
    return "";
  }

  /** The step that the playhead is in; -1 for none. */
  get step() {
    for (const row of this.timeline.bars.steps) {
      const at = row.at(this.app.t);
      if (at >= 0) return row.ids[at];
    }
    return -1;
  }

  /** The backward that the playhead is in; -1 for none. */
  get backward() {
    for (const row of [...this.timeline.bars.backwards].reverse()) {
      const at = row.at(this.app.t);
      if (at >= 0) return row.ids[at];
    }
    return -1;
  }

  /** Whether the playhead is in a step or backward that the graph does not show. */
  get isElsewhere() {
    const { app, step, backward } = this;
    const inStep = app.model.backwards.get("in_step");
    return app.backward >= 0 && (backward >= 0 ? backward !== app.backward : step >= 0 && step !== inStep[app.backward] && inStep.includes(step));
  }

  /** If the playhead is in a step or backward that the graph does not show, say which. */
  sayElsewhere() {
    const { app, timeline, elsewhere, step, backward } = this;
    const { backwards } = app.model;
    elsewhere.hidden = !this.isElsewhere;
    if (elsewhere.hidden) return;
    elsewhere.textContent = backward >= 0 && (step < 0 || step === backwards.get("in_step")[app.backward]) ? "in another backward: show it" : `in ${timeline.title({ kind: "steps" }, step)}: show it`;
  }

  /** Go to a moment, and show its step or backward if another one is shown. @param {number} t */
  reach(t) {
    const { app } = this;
    app.goTo(t);
    if (this.isElsewhere) this.follow();
  }

  /** Show the step or backward that the playhead is in, and stay at the moment. */
  follow() {
    const { app, timeline, step, backward } = this;
    const { t } = app;
    if (backward >= 0) app.setBackward(backward);
    else timeline.showStep(step);
    app.goTo(t);
  }
}
