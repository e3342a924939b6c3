/** Search by name, abbreviation, regular expression or source line: a list of hits, and steps through them. */

import { chip, link, made } from "./outline.js";
import { ABBREVIATED, NO_MATCH, matcher, wordsApart } from "../core/match.js";
import { MODULE } from "../core/tree.js";
import { count, duration, plural } from "../core/words.js";

/** @typedef {import("../core/app.js").App} App */

/**
 * Something that was found.
 * @typedef {object} Hit
 * @property {"module" | "node" | "leaf" | "call" | "data" | "finding" | "line"} kind
 * @property {string} title
 * @property {number} row of its group, node, finding or frame
 * @property {number} node the node it leads to; -1 for a module
 * @property {number} rank what is less comes first
 * @property {string} more what else is to be said of it
 */

const MOST_HITS = 60;
/** Ranks of findings and lines: after all names. */
const AFTER_NAMES = 20;
const AFTER_FINDINGS = 40;
const ELSEWHERE_RANK = 0.5;

/** The field at the top, and the list below it. */
export class Search {
  /** @param {App} app @param {import("./lists.js").Findings} findings */
  constructor(app, findings) {
    this.app = app;
    this.findings = findings;
    this.input = /** @type {HTMLInputElement} */ (document.getElementById("search"));
    this.said = /** @type {HTMLElement} */ (document.getElementById("hits"));
    this.list = /** @type {HTMLElement} */ (document.getElementById("found"));
    /** @type {Hit[]} */
    this.hits = [];
    this.at = -1;
    this.wrong = "";
    /** All texts in lower case, and with their words apart. @type {string[] | undefined} */
    this.lowered = undefined;
    /** @type {string[] | undefined} */
    this.words = undefined;
    this.input.addEventListener("input", () => this.find());
    this.input.addEventListener("focus", () => this.unfoldList());
    this.input.addEventListener("keydown", (event) => this.key(event));
    this.list.addEventListener("keydown", (event) => this.keyInList(event));
    document.addEventListener("pointerdown", (event) => {
      if (!(/** @type {Element} */ (event.target)).closest(".find")) this.foldList();
    });
  }

  /** Look in this graph. @param {App} app */
  turnTo(app) {
    this.app = app;
    this.find();
    this.foldList();
  }

  // Finding ------------------------------------------------------------------------------------

  find() {
    const term = this.input.value.trim();
    this.at = -1;
    this.hits = [];
    this.wrong = "";
    const matches = term && term !== "/" ? matcher(term.split("#")[0] || term) : null;
    if (typeof matches === "string") this.wrong = matches;
    else if (matches) this.hits = this.found(matches, term.includes("#") ? term.split("#")[1] : "");
    this.say();
    this.unfoldList();
  }

  /** How well each text matches; each is looked at once. @param {import("../core/match.js").Matches} matches */
  ranked(matches) {
    const { texts } = this.app.model.nodes;
    this.lowered ??= texts.map((text) => text.toLowerCase());
    this.words ??= texts.map(wordsApart);
    return Uint8Array.from(this.lowered, (text, at) => matches(text, this.words[at]));
  }

  /** @param {import("../core/match.js").Matches} matches @param {string} number of a node, as in "MulBackward0#3" @returns {Hit[]} best first */
  found(matches, number) {
    const ranks = this.ranked(matches);
    const hits = number ? this.nodes(ranks, number) : [...this.modules(ranks), ...this.nodes(ranks, ""), ...this.inFindings(ranks), ...this.lines(ranks)];
    return hits.sort((one, other) => one.rank - other.rank);
  }

  /** Modules by path; each once, in what is shown if it is there. @param {Uint8Array} ranks @returns {Hit[]} */
  modules(ranks) {
    const { tree, model, root } = this.app;
    const paths = model.groups.get("path");
    /** @type {Map<number, Hit>} */
    const found = new Map();
    for (let group = 1; group < tree.size; group += 1) {
      const rank = ranks[paths[group]];
      if (rank === NO_MATCH || tree.form[group] !== MODULE) continue;
      const here = tree.contains(root, group);
      const known = found.get(paths[group]);
      if (known && (!here || known.rank === rank)) continue;
      found.set(paths[group], { kind: "module", title: model.groups.texts[paths[group]], row: group, node: -1, rank: rank + (here ? 0 : ELSEWHERE_RANK), more: here ? "" : tree.title(tree.stepOf[group]) });
    }
    return [...found.values()];
  }

  /** Nodes, leaves and calls by name: those with a box of their own before others. @param {Uint8Array} ranks @param {string} number @returns {Hit[]} */
  nodes(ranks, number) {
    const { app } = this;
    const { model } = app;
    const { name, leaf, ordinal, step } = model.nodes.columns;
    const several = app.tree.steps.size > 1;
    const found = [];
    for (let node = 0; node < name.length; node += 1) {
      const rank = Math.min(ranks[name[node]], leaf[node] ? ranks[leaf[node]] : NO_MATCH);
      if (rank === NO_MATCH || number && !String(ordinal[node]).startsWith(number)) continue;
      const here = app.picture.boxOf[node] !== -1;
      const isLeaf = model.isLeaf(node);
      found.push({
        kind: /** @type {Hit["kind"]} */ (model.isForward ? (isLeaf ? "data" : "call") : isLeaf ? "leaf" : "node"), title: model.title(node), row: node, node,
        rank: rank + (here ? 0.1 : ELSEWHERE_RANK), more: several && !here && step[node] >= 0 ? `${app.rank < 0 ? "" : `rank ${app.model.rankOf(node)}, `}step ${step[node]}` : "",
      });
    }
    return found;
  }

  /** @param {Uint8Array} ranks @returns {Hit[]} */
  inFindings(ranks) {
    const { findings } = this.findings.app.model.tables;
    const found = [];
    for (let row = 0; row < findings.length; row += 1) {
      const rank = Math.min(...["rule", "slug", "message"].map((column) => ranks[findings.get(column)[row]]));
      if (rank >= ABBREVIATED) continue;
      found.push({ kind: /** @type {const} */ ("finding"), title: `${findings.text("rule", row)} ${findings.text("slug", row)}`, row, node: findings.get("node")[row], rank: AFTER_NAMES + rank, more: findings.text("place", row) });
    }
    return found;
  }

  /** Source lines by text and place, not by abbreviations. @param {Uint8Array} ranks @returns {Hit[]} */
  lines(ranks) {
    const { model } = this.app;
    const { frames } = model.tables;
    const places = new Map();
    for (let row = 0; row < frames.length; row += 1) {
      const place = model.place(row);
      const rank = Math.min(ranks[frames.get("text")[row]], matchesPlace(place, this.input.value.trim().toLowerCase()));
      if (rank >= ABBREVIATED || places.has(place)) continue;
      places.set(place, { kind: /** @type {const} */ ("line"), title: frames.text("text", row) || place, row, node: -1, rank: AFTER_FINDINGS + rank, more: place });
    }
    return [...places.values()];
  }

  // The list -----------------------------------------------------------------------------------

  foldList() {
    this.list.hidden = true;
  }

  unfoldList() {
    this.list.hidden = !this.hits.length;
    this.list.replaceChildren(...this.hits.slice(0, MOST_HITS).map((hit, at) => this.item(hit, at)));
    if (this.hits.length > MOST_HITS) this.list.append(made("li", "soft", `and ${count(this.hits.length - MOST_HITS)} more: n and N go on through them`));
  }

  /** @param {Hit} hit @param {number} at */
  item(hit, at) {
    const { app } = this;
    const item = made("li", "hit");
    const title = link(hit.title, () => this.go(at));
    title.classList.add("to-graph");
    if (hit.node >= 0 && hit.kind !== "finding") item.append(chip(app.model.nodes.get("kind")[hit.node], app.model.isLeaf(hit.node)));
    item.append(title, made("span", "soft kind", [hit.kind, hit.more].filter(Boolean).join(" · ")));
    const run = hit.node >= 0 && hit.kind === "node" ? app.runOf(hit.node) : -1;
    const begun = run >= 0 ? app.model.runs.get("begun")[run] : -1;
    if (begun >= 0) item.append(this.way(`at ${duration(app.model.runs.get("begun_t")[run] - this.findings.app.axis.least)}`, "the event at which it begins, in the timeline", () => { this.go(at); app.go(begun); }));
    const frame = hit.kind === "line" ? hit.row : hit.node >= 0 ? app.model.frameOf(hit.node) : -1;
    if (frame >= 0 && hit.kind !== "line") item.append(this.way(app.model.shortPlace(frame), "its source line", () => { this.go(at); showSource(); }));
    return item;
  }

  /** @param {string} text @param {string} title @param {() => void} act */
  way(text, title, act) {
    const button = link(text, act);
    button.title = title;
    button.classList.add("way");
    return button;
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.key === "Enter") this.turn(event.shiftKey ? -1 : 1);
    if (event.key === "ArrowDown" && this.hits.length) {
      this.unfoldList();
      /** @type {HTMLElement} */ (this.list.querySelector(".to-graph")).focus();
      event.preventDefault();
    }
    if (event.key === "Escape") {
      this.foldList();
      this.input.blur();
    }
    event.stopPropagation();
  }

  /** @param {KeyboardEvent} event */
  keyInList(event) {
    const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") {
      this.input.focus();
      this.foldList();
    } else if (way) {
      const all = /** @type {HTMLElement[]} */ ([...this.list.querySelectorAll(".to-graph")]);
      const here = all.findIndex((each) => each.closest("li") === document.activeElement?.closest("li"));
      (all[here + way] ?? this.input).focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // Going there --------------------------------------------------------------------------------

  /** The number of hits, and the current one. */
  say() {
    const found = this.hits.length;
    const hit = this.hits[Math.max(this.at, 0)];
    const number = this.at < 0 ? `${count(found)} · Enter:` : `${count(this.at + 1)} of ${count(found)}:`;
    const { model } = this.app;
    const nothing = model.tables.calls ? `nothing in the ${model.isForward ? "forward" : "backward"} graph (g: the other)` : "nothing found";
    const what = found ? `${number} ${hit.kind === "node" || hit.kind === "leaf" ? "" : `${hit.kind} `}${hit.title}` : nothing;
    const said = this.wrong || (this.input.value.trim() ? what : "");
    this.said.textContent = said;
    this.said.title = said;
  }

  /** @param {number} step */
  turn(step) {
    const { length } = this.hits;
    if (!length) return;
    this.go(this.at < 0 ? (step > 0 ? 0 : length - 1) : (this.at + step + length) % length);
  }

  /** Show a hit. @param {number} at */
  go(at) {
    this.at = at;
    this.foldList();
    const { app } = this;
    const hit = this.hits[at];
    if (hit.kind === "module") app.showGroup(hit.row);
    else if (hit.kind === "finding") this.findings.show(hit.row);
    else if (hit.kind === "line") app.selectLine(hit.row);
    else {
      app.selectNode(hit.node);
      app.unfold(hit.node);
    }
    this.say();
  }
}

/** @param {string} place as in "model.py:26" @param {string} wanted */
function matchesPlace(place, wanted) {
  return place.toLowerCase().includes(wanted) ? 0 : NO_MATCH;
}

/** Scroll the details to the source lines of the selection. */
function showSource() {
  requestAnimationFrame(() => requestAnimationFrame(() => document.querySelector("#details .source .here, #details .source")?.scrollIntoView({ block: "center" })));
}
