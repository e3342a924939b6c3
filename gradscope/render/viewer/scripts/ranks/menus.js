/** The menus of ranks and of backwards. */

import { sameInStep } from "../core/twins.js";

/** @typedef {import("../core/app.js").App} App */

/** The menu of the backwards of one rank, and next to it that of the ranks of a merged trace. */
export class Menus {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.backward = /** @type {HTMLSelectElement} */ (document.getElementById("backward"));
    this.rank = /** @type {HTMLSelectElement} */ (document.getElementById("rank"));
    const { ranks } = app.model.facts;
    /** @type {HTMLElement} */ (this.rank.closest("label")).hidden = !ranks.length;
    for (const rank of ranks) this.rank.append(new Option(`rank ${rank}`, String(rank)));
    this.rank.addEventListener("change", () => app.setRank(Number(this.rank.value)));
    this.backward.addEventListener("change", () => turnTo(app, Number(this.backward.value)));
    app.follow((changes) => { if (changes.has("backward")) this.show(); });
    this.show();
  }

  /** Only the backwards of the rank shown are listed. */
  fill() {
    const { app, backward } = this;
    const { backwards } = app.model;
    const rows = app.model.backwardsOf(app.rank);
    const several = new Set(rows.map((row) => backwards.get("step")[row])).size > 1;
    backward.replaceChildren();
    if (rows.length !== 1) backward.append(new Option(app.rank < 0 ? `all ${rows.length}` : `rank ${app.rank} · all ${rows.length}`, "-1"));
    for (const row of rows) {
      const name = app.model.backwardName(row, several).replace(/ at \S*[\\/]/, " at ");
      backward.append(new Option(`${name}${backwards.text("error", row) ? " ✖" : ""}`, String(row)));
    }
    this.filled = app.rank;
  }

  show() {
    if (this.filled !== this.app.rank) this.fill();
    this.rank.value = String(this.app.rank);
    this.backward.value = String(this.app.backward);
  }
}

/** Show a backward, and what was selected in the step before in that step. @param {App} app @param {number} backward */
function turnTo(app, backward) {
  const { node, group, tree } = app;
  const from = tree.stepOf[node >= 0 ? app.homeOf(node) : Math.max(group, 0)];
  app.setBackward(backward);
  if (!from || from === app.root || tree.stepOf[app.root] === 0) return;
  if (node >= 0 && !app.model.isLeaf(node)) {
    const twin = sameInStep(app, node, app.root);
    if (twin >= 0) app.selectNode(twin, false);
    else app.clear();
  } else if (group >= 0) {
    const twin = app.groupAt(app.model.groups.text("path", group));
    if (twin >= 0) app.selectGroup(twin, false);
    else app.clear();
  }
}
