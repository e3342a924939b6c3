/** Search by module, name, leaf or line, and step through the results. */

import { MODULE } from "../core/tree.js";
import { count } from "../core/words.js";

/** @typedef {import("../core/app.js").App} App */

/** Modules come first: a hit below zero is one, -1 - its group. */
export class Search {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.input = /** @type {HTMLInputElement} */ (document.getElementById("search"));
    this.said = /** @type {HTMLElement} */ (document.getElementById("hits"));
    /** @type {number[]} */
    this.hits = [];
    this.at = -1;
    this.input.addEventListener("input", () => this.find());
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.turn(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") this.input.blur();
      event.stopPropagation();
    });
  }

  /** Look in this graph. @param {App} app */
  turnTo(app) {
    this.app = app;
    this.find();
  }

  /** The texts and lines that contain the search term; each is tested once. @param {string} wanted */
  matching(wanted) {
    const { model } = this.app;
    const { frames, stacks } = model.tables;
    this.texts ??= model.nodes.texts.map((text) => text.toLowerCase());
    const texts = Uint8Array.from(this.texts, (text) => (text.includes(wanted) ? 1 : 0));
    const lines = new Set();
    for (let row = 0; row < frames.length; row += 1) {
      if (texts[frames.get("text")[row]] || model.place(row).toLowerCase().includes(wanted)) lines.add(row);
    }
    const found = new Set();
    for (const stack of stacks.get("id")) {
      const frame = model.frames(stack)[0];
      if (frame !== undefined && lines.has(frame)) found.add(stack);
    }
    return { texts, stacks: found };
  }

  find() {
    const wanted = this.input.value.trim().toLowerCase();
    this.at = -1;
    this.hits = wanted ? this.found(wanted) : [];
    this.say();
  }

  /** Modules by path: exact matches first, then those whose last part matches, those inside, and others; visible ones first. @param {string} wanted @param {Uint8Array} texts which hold it @returns {number[]} */
  modulesWith(wanted, texts) {
    const { tree, model, root } = this.app;
    const place = model.groups.get("path");
    /** @type {[number, number][]} */
    const found = [];
    for (let group = 1; group < tree.size; group += 1) {
      if (!texts[place[group]] || tree.form[group] !== MODULE) continue;
      const path = this.texts[place[group]];
      const rank = path === wanted ? 0 : path.endsWith(`.${wanted}`) ? 1 : path.startsWith(wanted) ? 2 : 3;
      found.push([2 * rank + (tree.contains(root, group) ? 0 : 1), -1 - group]);
    }
    return found.sort(([one], [other]) => one - other).map(([, hit]) => hit);
  }

  /** The modules and nodes found: exact matches first, and visible ones before others. @param {string} wanted */
  found(wanted) {
    const { app } = this;
    const { name, leaf, module, stack, ordinal } = app.model.nodes.columns;
    const [plain, number] = wanted.split("#", 2);
    const { texts, stacks } = this.matching(plain);
    const exact = this.texts.indexOf(wanted);
    const called = number === undefined ? this.modulesWith(wanted, texts) : [];
    const here = [];
    const elsewhere = [];
    for (let node = 0; node < name.length; node += 1) {
      const found = number === undefined
        ? texts[name[node]] || texts[leaf[node]] || texts[module[node]] || stacks.has(stack[node])
        : texts[name[node]] && String(ordinal[node]).startsWith(number);
      if (!found) continue;
      if (leaf[node] === exact) called.push(node);
      else (app.picture.boxOf[node] === -1 ? elsewhere : here).push(node);
    }
    return called.concat(here, elsewhere);
  }

  /** The number of results, and the current one. */
  say() {
    const found = this.hits.length;
    const hit = this.hits[Math.max(this.at, 0)];
    const { model } = this.app;
    const what = !found ? "" : hit < 0 ? `module ${model.groups.text("path", -1 - hit)}` : model.title(hit);
    const number = this.at < 0 ? `${count(found)} · Enter:` : `${count(this.at + 1)} of ${count(found)}:`;
    const said = !this.input.value.trim() ? "" : found ? `${number} ${what}` : "nothing found";
    this.said.textContent = said;
    this.said.title = said;
  }

  /** @param {number} step */
  turn(step) {
    const { length } = this.hits;
    if (!length) return;
    this.at = this.at < 0 ? (step > 0 ? 0 : length - 1) : (this.at + step + length) % length;
    const hit = this.hits[this.at];
    if (hit < 0) this.app.showGroup(-1 - hit);
    else {
      this.app.selectNode(hit);
      this.app.unfold(hit);
    }
    this.say();
  }
}
