/** The lists of findings and of the slowest parts. */

import { chip, link, listed, made } from "./outline.js";
import { count, duration, plural } from "../core/words.js";

/** @typedef {import("../core/app.js").App} App */

export const SEVERITIES = ["note", "warning", "error"];
const ROWS = 15;
const SLOW_LINES = 8;

/** A finding, as `inspect` shows it. @param {import("../core/data.js").Model} model @param {number} row @returns {HTMLElement} */
export function finding(model, row) {
  const { findings } = model.tables;
  const severity = SEVERITIES[findings.get("severity")[row]];
  const card = made("article", `finding ${severity}`);
  card.append(made("div", severity === "error" ? "head alarm" : "head", `${severity} ${findings.text("rule", row)} ${findings.text("slug", row)} #${findings.text("id", row)}`));
  card.append(made("p", "", findings.text("message", row)));
  if (findings.text("place", row)) {
    const where = made("p");
    const inside = findings.text("where", row);
    where.append(made("span", "soft", `${findings.text("place", row)}${inside && ` (${inside})`}  `), made("code", "", findings.text("code", row)));
    card.append(where);
  }
  for (const [column, name] of [["why", "why"], ["fix", "fix"], ["sure", "certainty:"]]) {
    const line = made("p", "soft");
    line.append(made("strong", "", `${name} `), findings.text(column, row));
    card.append(line);
  }
  return card;
}

/** The findings of `inspect`, worst first. */
export class Findings {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.at = -1;
    this.element = /** @type {HTMLElement} */ (document.getElementById("findings-panel"));
    const { findings } = app.model.tables;
    /** @type {HTMLElement} */ (document.getElementById("tab-findings")).textContent = `Findings (${findings.length})`;
    for (let row = 0; row < findings.length; row += 1) this.element.append(this.card(row));
    if (!findings.length) this.element.append(made("p", "", app.model.facts.summary.verdict));
  }

  /** @param {number} row */
  card(row) {
    const card = finding(this.app.model, row);
    if (this.app.model.tables.findings.get("node")[row] >= 0) card.append(link("show it", () => this.show(row)));
    return card;
  }

  /** @param {number} row */
  show(row) {
    this.at = row;
    const { findings } = this.app.model.tables;
    const node = findings.get("node")[row];
    if (node >= 0) {
      this.app.selectNode(node);
      this.app.unfold(node);
      const run = this.app.runOf(node);
      if (run >= 0) this.app.go(this.app.model.runs.get("begun")[run]);
    }
    this.element.children[row]?.scrollIntoView({ block: "nearest" });
  }

  /** @param {number} step 1 for the next, -1 for the one before */
  turn(step) {
    const { length } = this.app.model.tables.findings;
    if (length) this.show((this.at + step + length) % length);
  }
}

/** The place of a slow line, as a link to its nodes if it is in the program. @param {App} app @param {number} row of `slow_lines` */
export function toLine(app, row) {
  const { slow_lines: lines } = app.model.tables;
  const frame = lines.get("frame")[row];
  const place = lines.text("place", row);
  return frame >= 0 && app.model.makesNodes(frame) ? link(place, () => app.selectLine(frame)) : place;
}

/** The slowest lines, nodes, names of nodes, forward operations and modules. */
export class Slowest {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.element = /** @type {HTMLElement} */ (document.getElementById("slowest-panel"));
    this.isStale = true;
    app.follow((changes) => {
      this.isStale ||= changes.has("backward");
      if (this.isStale && !this.element.hidden) this.show();
    });
  }

  show() {
    this.isStale = false;
    const { app, element } = this;
    element.replaceChildren();
    this.lines();
    if (!app.model.engineSeen) element.append(made("p", "soft", app.model.nodes.length ? "Not recorded at level graph: times. Use --level engine." : "No backward ran: nothing required a gradient."));
    else this.nodes();
    const tables = app.model.tables;
    this.names(app.rank < 0 ? "By name, all backwards" : "By name, all backwards of all ranks", tables.slow_nodes, (name) => this.slowestOf(name));
    this.names("Operations of the forward pass", tables.slow_ops);
    this.modules();
  }

  lines() {
    const { slow_lines: lines } = this.app.model.tables;
    if (!lines.length) return;
    this.title("Lines, all steps");
    this.element.append(listed([...Array(lines.length).keys()], (row) => {
      const parts = [["operations", "ops"], ["backward", "backward"], ["before its calls (Python, imports, input)", "between"]];
      const said = parts.filter(([, column]) => lines.get(column)[row] > 0).map(([name, column]) => `${name} ${duration(lines.get(column)[row])}`);
      return [toLine(this.app, row), made("span", "much", duration(lines.get("all")[row])), made("code", "line", lines.text("text", row)), made("span", "soft", said.join(", "))];
    }, SLOW_LINES, "slow"));
  }

  nodes() {
    const { app } = this;
    const { runs } = app.model;
    const own = runs.get("self_ns");
    const rows = [...own.keys()].filter((run) => own[run] > 0 && runs.get("node")[run] >= 0 && app.covers(runs.get("backward")[run]));
    rows.sort((one, other) => own[other] - own[one]);
    const whole = rows.reduce((sum, run) => sum + own[run], 0) || 1;
    this.title(app.backward < 0 ? "Nodes, all backwards" : "Nodes of this backward");
    this.element.append(listed(rows, (run) => {
      const node = runs.get("node")[run];
      return [
        chip(app.model.nodes.get("kind")[node], app.model.isLeaf(node)), link(app.model.title(node), () => this.choose(run)),
        made("span", "much", `${duration(own[run])} · ${(100 * own[run] / whole).toFixed(0)}%`),
      ];
    }, ROWS, "row"));
  }

  /** Show a run in its backward. @param {number} run */
  choose(run) {
    const { app } = this;
    const { runs } = app.model;
    const backward = runs.get("backward")[run];
    const node = runs.get("node")[run];
    if (!app.covers(backward)) app.setBackward(backward);
    app.selectNode(node);
    app.unfold(node);
    app.go(runs.get("begun")[run]);
  }

  /** The slowest run of a node with a name; -1 if none is on the page. @param {number} name the place of its text */
  slowestOf(name) {
    const { runs, nodes } = this.app.model;
    const own = runs.get("self_ns");
    let best = -1;
    runs.get("node").forEach((/** @type {number} */ node, /** @type {number} */ run) => {
      if (node >= 0 && nodes.get("name")[node] === name && own[run] >= 0 && (best < 0 || own[run] > own[best])) best = run;
    });
    return best;
  }

  /** @param {string} text */
  title(text) {
    this.element.append(made("h2", "section", text));
  }

  /** @param {string} title @param {import("../core/data.js").Table} table @param {(name: number) => number} [slowest] the run that a name leads to */
  names(title, table, slowest) {
    const rows = [...Array(table.length).keys()].filter((row) => table.get("self")[row] > 0).slice(0, ROWS);
    if (!rows.length) return;
    this.title(title);
    const shown = made("table");
    const head = made("tr");
    for (const name of ["name", "count", "own time", "longest"]) head.append(made("th", "", name));
    shown.append(head);
    for (const row of rows) {
      const line = made("tr");
      const name = made("td");
      const run = slowest ? slowest(table.get("name")[row]) : -1;
      name.append(run < 0 ? table.text("name", row) : link(table.text("name", row), () => this.choose(run)));
      line.append(name, made("td", "", count(table.get("count")[row])), made("td", "", duration(table.get("self")[row])), made("td", "", duration(table.get("longest")[row])));
      shown.append(line);
    }
    this.element.append(shown);
  }

  modules() {
    const { modules } = this.app.model.tables;
    const own = modules.get("self");
    const rank = modules.get("rank");
    const rows = [...own.keys()].filter((row) => own[row] > 0 && rank[row] === this.app.rank).sort((one, other) => own[other] - own[one]);
    if (!rows.length) return;
    this.title(this.app.rank < 0 ? "Modules, backward" : `Modules of rank ${this.app.rank}, backward`);
    this.element.append(listed(rows, (row) => [
      link(modules.text("name", row), () => this.module(modules.text("path", row))), made("span", "soft", modules.text("type", row)), made("span", "much", duration(own[row])),
    ], ROWS, "row"));
  }

  /** @param {string} path */
  module(path) {
    const group = this.app.groupAt(path);
    if (group >= 0) this.app.showGroup(group);
  }
}
