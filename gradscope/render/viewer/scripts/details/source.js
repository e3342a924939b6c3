/** The source lines of the trace. */

import { link, made } from "../panels/outline.js";
import { plural } from "../core/words.js";

/** @typedef {import("../core/app.js").App} App */

const AROUND = 3;
const ALL_LINES = 1e6;
const DEEPEST = 6;

/** Shows source lines in an element. */
export class Source {
  /** @param {App} app @param {HTMLElement} element */
  constructor(app, element) {
    this.app = app;
    this.element = element;
  }

  /** The recorded lines of a file around one line; ⋯ where lines are missing. @param {number} frame @param {number[]} [called] the lines it was called from, itself first; those of the node selected */
  show(frame, called) {
    const { app } = this;
    const { frames } = app.model.tables;
    this.element.append(made("h3", "", "Source"));
    if (!frames.length || frame < 0 && app.node >= 0) {
      this.element.append(made("p", "soft", "No source line was recorded."));
      return;
    }
    const stack = called ?? (app.node >= 0 ? app.model.frames(app.model.nodes.get("stack")[app.node]) : []);
    const shown = frame >= 0 ? frame : this.mainFrame();
    for (const each of stack.length ? stack.slice(0, DEEPEST) : [shown]) this.lines(each, frame < 0 ? ALL_LINES : AROUND, frame >= 0);
    if (stack.length > DEEPEST) this.rest(stack.slice(DEEPEST));
  }

  /** The outer lines of the call stack, on demand. @param {number[]} stack */
  rest(stack) {
    const more = link(`⋯ called from ${plural(stack.length, "more line")}`, () => {
      const before = this.element.childElementCount;
      more.remove();
      for (const each of stack) this.lines(each, 0, true);
      /** @type {HTMLElement | null} */ (this.element.children[before - 1]?.querySelector("button"))?.focus();
    });
    this.element.append(more);
  }

  mainFrame() {
    const { frames } = this.app.model.tables;
    const uses = new Map();
    for (let row = 0; row < frames.length; row += 1) uses.set(frames.text("file", row), (uses.get(frames.text("file", row)) ?? 0) + 1);
    const [file] = [...uses].sort((one, other) => other[1] - one[1])[0];
    return [...Array(frames.length).keys()].find((row) => frames.text("file", row) === file) ?? 0;
  }

  /** @param {number} frame @param {number} around @param {boolean} mark */
  lines(frame, around, mark) {
    const { frames } = this.app.model.tables;
    const file = frames.text("file", frame);
    const here = frames.get("line")[frame];
    const rows = new Map();
    for (let row = 0; row < frames.length; row += 1) {
      const line = frames.get("line")[row];
      if (frames.text("file", row) === file && (around === ALL_LINES || Math.abs(line - here) <= around)) rows.set(line, row);
    }
    const functionName = frames.text("function", frame);
    this.element.append(made("p", "soft", `${file}${functionName && functionName !== "<module>" && mark ? `, in ${functionName}` : ""}`));
    const box = made("div", "source");
    let before = 0;
    for (const [line, row] of [...rows].sort((one, other) => one[0] - other[0])) {
      if (before && line > before + 1) box.append(this.gap());
      before = line;
      const element = made("div", mark && line === here ? "here" : "");
      const button = made("button");
      button.title = "Select the nodes of this line, one after the other";
      button.append(made("span", "nr", String(line)), made("code", "", frames.text("text", row)));
      button.addEventListener("click", () => this.app.selectLine(row));
      element.append(button);
      box.append(element);
    }
    this.element.append(box);
  }

  gap() {
    const gap = made("div");
    gap.append(made("span", "nr", "⋯"));
    return gap;
  }
}
