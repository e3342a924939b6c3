/** The page's trace compared with an earlier one: first differences, new, gone and slower nodes. */

import { link, listed, made } from "./outline.js";
import { count, duration, plural } from "../core/words.js";

/** @typedef {import("../core/app.js").App} App */

const SHOWN = 25;
const SLOWEST = 12;
/** Share of the whole time by which a node must be slower to be listed. */
const WORTH = 0.005;

/** @param {number} before @param {number} now @returns {string} as in "12.0 µs → 40.1 µs, ×3.3" */
export function change(before, now) {
  const times = before > 0 ? `, ×${(now / before).toFixed(now / before < 9.95 ? 1 : 0)}` : "";
  return `${duration(Math.max(before, 0))} → ${duration(now)}${times}`;
}

/** The list on the left. */
export class Compared {
  /** @param {App} app @param {import("../core/forward.js").Graphs} graphs */
  constructor(app, graphs) {
    this.app = app;
    this.graphs = graphs;
    this.changes = /** @type {import("../core/changes.js").Changes} */ (app.changed);
    this.element = /** @type {HTMLElement} */ (document.getElementById("compared-panel"));
    /** @type {HTMLElement} */ (document.getElementById("tab-compared")).hidden = false;
    const { names, verdict, summary, about } = this.changes.facts;
    this.element.append(made("h2", "", `${names[1]} compared with ${names[0]}`), made("p", "", summary), made("p", "under", verdict));
    for (const each of about) this.element.append(made("p", "soft", each));
    const kinds = app.model.tables.differences.length;
    this.differences(0, Math.min(kinds, 1));
    this.fresh();
    this.gone();
    this.calls();
    this.times();
    this.findings();
    this.differences(1, kinds);
    this.sections();
  }

  /** @param {string} text */
  title(text) {
    this.element.append(made("h3", "", text));
  }

  /** @template T @param {T[]} things @param {(thing: T) => (string | Node)[]} show @param {number} [most] */
  list(things, show, most = SHOWN) {
    this.element.append(listed(things, show, most));
  }

  /** @param {number} node @param {string} [text] */
  toNode(node, text) {
    const { app } = this;
    return link(text ?? app.model.title(node), () => { app.selectNode(node); app.unfold(node); });
  }

  times() {
    const { app, changes } = this;
    if (!changes.facts.timed) {
      this.element.append(made("p", "soft", "Times are not compared: one of the traces has none (level graph)."));
      return;
    }
    const { tree, model } = app;
    const before = changes.beforeIn[0] + model.tables.gone.get("ran").reduce((sum, each) => sum + Math.max(each, 0), 0);
    this.title("Times");
    this.element.append(made("p", "", `Total time of nodes: ${change(before, tree.ns[0])}.`));
    const least = WORTH * Math.max(before, tree.ns[0]);
    const slower = [...changes.more.keys()].filter((node) => changes.more[node] > least && !changes.isNew(node));
    slower.sort((one, other) => changes.more[other] - changes.more[one]);
    this.title("Slower");
    if (!slower.length) this.element.append(made("p", "soft", `No node took ${duration(least)} more than before.`));
    this.list(slower, (node) => this.took(node), SLOWEST);
    const faster = [...changes.more.keys()].filter((node) => changes.more[node] < -least);
    faster.sort((one, other) => changes.more[one] - changes.more[other]);
    if (!faster.length) return;
    this.title("Faster");
    this.list(faster, (node) => this.took(node), SLOWEST / 2);
  }

  /** @param {number} node */
  took(node) {
    return [this.toNode(node), made("span", "soft", ` ${change(this.changes.before[node], this.app.tree.nodeNs[node])}`)];
  }

  /** The first difference of some aspects; the first of these is the first of all. @param {number} from @param {number} to */
  differences(from, to) {
    const { differences } = this.app.model.tables;
    for (let row = from; row < to; row += 1) {
      this.title(row ? "First difference of another aspect" : "First difference");
      const card = made("article", row ? "finding" : "finding warning");
      card.append(made("div", "head", differences.text("head", row)));
      ["one", "other"].forEach((side, place) => {
        const said = made("p");
        said.append(made("span", "soft", `${this.changes.facts.names[place]}  `), differences.text(side, row));
        card.append(said);
        const source = differences.text(`${side}_source`, row);
        if (source) card.append(made("code", "", source));
      });
      const node = differences.get("node")[row];
      if (node >= 0) {
        const way = made("p");
        way.append(this.toNode(node, "show it"));
        card.append(way);
      }
      this.element.append(card);
    }
  }

  /** As in "269 nodes and 12 leaves". @param {number[]} rows @param {(row: number) => boolean} isLeaf */
  counted(rows, isLeaf) {
    const leaves = rows.filter(isLeaf).length;
    const nodes = leaves === rows.length && leaves ? [] : [plural(rows.length - leaves, "node")];
    return [...nodes, ...leaves ? [plural(leaves, "leaf", "leaves")] : []].join(" and ");
  }

  fresh() {
    const { changes } = this;
    const rows = [...changes.status.keys()].filter((node) => changes.isNew(node));
    this.title(`+ ${this.counted(rows, (node) => this.app.model.isLeaf(node))} that only ${changes.facts.names[1]} has`);
    this.list(rows, (node) => {
      const { model } = this.app;
      const frame = model.frameOf(node);
      return [this.toNode(node), made("span", "soft", frame >= 0 ? ` ${model.shortPlace(frame)}` : "")];
    });
  }

  gone() {
    const { gone } = this.app.model.tables;
    const rows = [...Array(gone.length).keys()];
    this.title(`− ${this.counted(rows, (row) => gone.get("is_leaf")[row] === 1)} that only ${this.changes.facts.names[0]} has`);
    this.list(rows, (row) => {
      const node = gone.get("node")[row];
      const said = [made("span", "", gone.text("title", row)), made("span", "soft", ` ${gone.text("place", row)} `)];
      return node >= 0 ? [...said, made("span", "soft", "before "), this.toNode(node)] : said;
    });
  }

  /** Calls that created no node; for the others their nodes are listed. */
  calls() {
    const { app, graphs } = this;
    const { calls, compared_calls: compared, gone_calls: gone } = app.model.tables;
    if (!compared) return;
    const [old, fresh] = this.changes.facts.names;
    const rows = [...calls.get("id").keys()].filter((call) => compared.get("status")[call] === 2 && calls.get("made")[call] < 0);
    if (rows.length) this.title(`+ ${plural(rows.length, "call")} without a node that only ${fresh} has`);
    this.list(rows, (call) => [link(calls.text("name", call), () => { graphs.show(true); graphs.forward?.selectNode(call); graphs.forward?.unfold(call); })]);
    const left = [...gone.get("node").keys()];
    if (left.length) this.title(`− ${plural(left.length, "call")} that only ${old} has`);
    this.list(left, (row) => [made("span", "", gone.text("title", row)), made("span", "soft", ` ${gone.text("place", row)}`)]);
  }

  findings() {
    const { findings } = this.app.model.tables;
    const { new_findings: fresh, gone_findings: gone } = this.changes.facts;
    this.title("Findings");
    if (!fresh.length && !gone.length) this.element.append(made("p", "soft", "The same in both."));
    this.list(fresh, (/** @type {number} */ row) => [made("strong", "", "+ "), `${findings.text("message", row)} (${findings.text("rule", row)} ${findings.text("slug", row)} #${findings.text("id", row)})`]);
    this.list(gone, (/** @type {string} */ text) => [made("strong", "", "− "), text]);
  }

  sections() {
    const { sections } = this.app.model.tables;
    this.title("Comparison of the whole traces; leaves are not counted as nodes");
    const table = made("table", "words");
    for (let row = 0; row < sections.length; row += 1) {
      const line = made("tr");
      line.append(made("td", "", sections.text("kind", row)), made("td", "soft", sections.text("of", row)), made("td", "", sections.text("differs", row)));
      table.append(line);
    }
    this.element.append(table);
    for (const note of this.changes.facts.notes) this.element.append(made("p", "soft", note));
  }
}

/** How a node or group changed since the earlier trace. @param {App} app @param {any} box @returns {HTMLElement[]} */
export function since(app, box) {
  const changes = app.changed;
  if (!changes) return [];
  const [before] = changes.facts.names;
  const group = box.is === "group";
  const { isForward } = app.model;
  const [one, many] = isForward ? ["call", "calls"] : ["node or leaf", "nodes and leaves"];
  const said = [];
  if (!group && changes.isNew(box.node)) said.push(`+ new: ${before} has no such ${isForward ? "call" : "node"}`);
  if (group && changes.newIn[box.group]) said.push(`+ ${plural(changes.newIn[box.group], one, many)} that ${before} does not have`);
  const gone = group ? changes.goneIn[box.group] : changes.goneAt.get(box.node)?.length ?? 0;
  if (gone) said.push(`− ${plural(gone, one, many)} gone ${group ? "from here" : "in front of it"}`);
  const ran = group ? changes.beforeIn[box.group] : changes.before[box.node];
  if (changes.facts.timed && ran >= 0 && (group || changes.status[box.node] === 1)) {
    said.push(`time ${change(ran, group ? app.tree.ns[box.group] : app.tree.nodeNs[box.node])}`);
  }
  return [made("h3", "", `Since ${before}`), ...said.map((each) => made("p", "", each))];
}
