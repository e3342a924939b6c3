/** The legend of colours and signs. */

import { hottest, limits } from "../core/heat.js";
import { STRUCTURE_COLORS, structuresShown } from "../core/structures.js";
import { duration } from "../core/words.js";
import { made } from "./outline.js";
import { LANES, MARKS } from "../paint/paint.js";

/** @typedef {import("../core/app.js").App} App */

/** The line below the graph. */
export class Legend {
  /** @param {App} app */
  constructor(app) {
    this.element = /** @type {HTMLElement} */ (document.getElementById("legend"));
    this.turnTo(app);
    app.follow((changes) => { if (changes.has("look") || changes.has("picture")) this.show(); });
  }

  /** Show the legend of this graph. @param {App} app */
  turnTo(app) {
    this.app = app;
    this.kinds = new Set(app.model.nodes.get("kind"));
    this.signs = this.signsHere();
    this.show();
  }

  show() {
    this.element.replaceChildren(...this.colors(), ...this.kindItems(), ...this.signs);
  }

  /** @param {string} text @param {string} fill @param {string} line @param {boolean} [square] */
  sample(text, fill, line, square) {
    const item = made("li");
    const box = made("i");
    box.style.background = fill;
    box.style.borderColor = line;
    if (square) box.style.borderRadius = "0";
    item.append(box, text);
    return item;
  }

  /** What the colors of boxes stand for, other than their kinds. */
  colors() {
    if (this.app.coloring === "kind") return [];
    if (this.app.coloring !== "structure") return this.scale();
    const found = structuresShown(this.app)
      .map(({ number, words }) => this.sample(words, `var(--structure-${number % STRUCTURE_COLORS}-fill)`, `var(--structure-${number % STRUCTURE_COLORS}-line)`));
    return found.length ? found : [made("li", "", "no structure occurs more than once here")];
  }

  /** The kinds that have a colour: only leaves if colours stand for times. */
  kindItems() {
    const { facts } = this.app.model;
    const all = this.app.coloring === "kind";
    return [...facts.kinds.keys()].filter((kind) => this.kinds.has(kind) && (all || facts.kinds[kind] === "leaf"))
      .map((kind) => this.sample(facts.kinds[kind], `var(--kind-${kind}-fill)`, `var(--kind-${kind}-line)`, facts.kinds[kind] === "leaf"));
  }

  /** The range of times of each shade in the current picture. */
  scale() {
    const { app } = this;
    const slower = app.coloring === "slower";
    if (slower && hottest(app) <= 1) return [made("li", "", `nothing here ${app.changed?.enough ? "is clearly slower" : "took longer (one sample)"} than in ${app.changed?.facts.names[0]}`)];
    const shades = limits(hottest(app)).map((limit, shade) => this.sample(`≤ ${duration(limit)}`, `var(--heat-${shade})`, "var(--arrow)"));
    const fresh = slower ? [this.sample("new: nothing to compare with", "var(--page)", "var(--arrow)")] : [];
    return [made("li", "", slower ? `${app.changed?.enough ? "clearly slower" : "longer (one sample)"} than in ${app.changed?.facts.names[0]} by` : app.model.isForward ? "time, including folded calls" : "time, including folded nodes"), ...shades, ...fresh];
  }

  signsHere() {
    const { app } = this;
    const { model } = app;
    const lanes = model.lanes.map((/** @type {string} */ lane, /** @type {number} */ number) => this.sample(lane, `var(--lane-${number % LANES})`, `var(--lane-${number % LANES})`));
    const signs = [...lanes, made("li", "", "⊞ folded")];
    if (app.tree.insides.partOf.size) signs.push(made("li", "", "dotted outline: inside a compiled region, inferred"));
    if (app.changed) signs.push(made("li", "", `≠ changed, + new, − gone since ${app.changed.facts.names[0]}`));
    if (model.tables.findings.get("severity").some((/** @type {number} */ each) => each > 0)) signs.push(made("li", "alarm", "! finding"));
    const seen = new Set();
    for (let node = 0; node < model.nodes.length; node += 1) for (const mark of model.marksOf(node)) seen.add(mark);
    for (const mark of model.facts.marks) if (seen.has(mark)) signs.push(made("li", /first|raised|finite/.test(mark) ? "alarm" : "", `${MARKS[mark]} ${mark}`));
    return signs;
  }
}
