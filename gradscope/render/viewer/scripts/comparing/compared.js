/** The page's trace compared with an earlier one: first differences, new, gone and slower nodes. */

import { link, listed, made } from "../panels/outline.js";
import { FASTER, SLOWER } from "../core/changes.js";
import { count, duration, plural } from "../core/words.js";

/** @typedef {import("../core/app.js").App} App */

const SHOWN = 25;
const SLOWEST = 12;
/** Share of the whole time by which a node must be slower to be listed. */
const WORTH = 0.005;

/** @param {number} before @param {number} now @returns {string} as in "12.0 µs → 40.1 µs, ×3.3" */
export function change(before, now) {
  return `${duration(Math.max(before, 0))} → ${duration(now)}${timesAsLong(before, now)}`;
}

/** @param {number} value above 0 @returns {string} as in "×3.3", "×0.04", "1/700 of it" */
export function ratio(value) {
  if (value >= 9.95) return `×${count(Math.round(value))}`;
  if (value >= 0.095) return `×${value.toFixed(value < 0.95 ? 2 : 1).replace(/0$/, "").replace(/\.$/, "")}`;
  return value >= 0.0095 ? `×${value.toPrecision(1)}` : `1/${count(Math.round(1 / value))} of it`;
}

/** @param {number} before @param {number} now @returns {string} as in ", ×3.3"; "" of unknown times */
function timesAsLong(before, now) {
  return before > 0 && now > 0 ? `, ${ratio(now / before)}` : "";
}

const VERDICTS = ["not compared", "no clear difference", "slower", "faster"];

/** A median with its quartiles. @param {number} low @param {number} median @param {number} high */
function spread(low, median, high) {
  return `${duration(median)} (${duration(low)} to ${duration(high)})`;
}

/** The time of a node before and now. @param {import("../core/changes.js").Changes} changes @param {number} node */
function timesOf(changes, node) {
  const [before, now] = [changes.before[node], changes.now[node]];
  if (!changes.enough || changes.verdict[node] < 0) return change(before, now);
  const columns = changes.columns;
  const edges = (/** @type {string} */ side) => /** @type {[number, number]} */ (["low", "high"].map((edge) => columns[`${side}_${edge}`][node]));
  const [[a, b], [c, d]] = [edges("ran"), edges("now")];
  return `${spread(a, before, b)} → ${spread(c, now, d)}${timesAsLong(before, now)}: ${VERDICTS[changes.verdict[node] + 1]}`;
}

/** The list on the left. */
export class Compared {
  /** @param {App} app @param {import("../core/forward.js").Graphs} graphs @param {import("./sides.js").Sides} sides */
  constructor(app, graphs, sides) {
    this.app = app;
    this.graphs = graphs;
    this.sides = sides;
    this.changes = /** @type {import("../core/changes.js").Changes} */ (app.changed);
    this.element = /** @type {HTMLElement} */ (document.getElementById("compared-panel"));
    /** @type {HTMLElement} */ (document.getElementById("tab-compared")).hidden = false;
    const { names, verdict, summary, about } = this.changes.facts;
    this.element.append(made("h2", "", `${names[1]} compared with ${names[0]}`));
    this.changed();
    this.element.append(made("p", "", summary), made("p", "under", verdict));
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

  /** What changed, causes first. A click leads to the first node of a change, the next ones to its others. */
  changed() {
    const { changes } = this.app.model.tables;
    if (!changes.length) {
      this.element.append(made("p", "", "No differences found in what was recorded of both."));
      return;
    }
    this.title(plural(changes.length, "change"));
    const card = made("article", "finding warning");
    card.append(listed(changes.get("marked").keys(), (change) => this.oneChange(change), SHOWN, "change"));
    this.element.append(card);
  }

  /** @param {number} change @returns {(string | Node)[]} */
  oneChange(change) {
    const { changes } = this.app.model.tables;
    const [nodes, then] = [this.changes.nodesOf[change], this.changes.nodesThen[change]];
    const text = (changes.get("marked")[change] ? "≠ " : "") + changes.text("text", change);
    const lines = ["one", "other"].map((side) => changes.text(side, change));
    const said = [nodes.length || then.length ? this.through(text, nodes, then) : made("span", "", text)];
    if (lines[0] === lines[1] || ["values", "other", "line"].includes(changes.text("kind", change))) return said;
    return [...said, ...lines.map((line, place) => (line ? made("code", "line", `${place ? "+" : "−"} ${line}`) : ""))];
  }

  /** A link to one node after the other: of this trace or, where a change has none there, of the earlier. @param {string} text @param {number[]} nodes @param {number[]} then */
  through(text, nodes, then) {
    const { app } = this;
    const all = nodes.length ? nodes : then;
    let next = 0;
    const way = link(text, () => {
      const node = all[next];
      next = (next + 1) % all.length;
      if (!nodes.length) {
        this.sides.showBefore(node);
        return;
      }
      if (this.graphs.shown !== app) this.graphs.show(false);
      app.selectNode(node);
      app.unfold(node);
    });
    way.title = all.length > 1 ? `one of ${count(all.length)} nodes; click again for the next` : "";
    return way;
  }

  /** Select a node of the first change, or the one in whose place it was: the page opens at it. */
  begin() {
    const { changes } = this;
    const change = changes.nodesOf.findIndex((nodes, each) => nodes.length > 0 || changes.nodesThen[each].length > 0);
    if (change < 0) return;
    const { gone } = this.app.model.tables;
    const node = changes.nodesOf[change][0] ?? gone.get("node")[gone.get("row").indexOf(changes.nodesThen[change][0])] ?? -1;
    if (node < 0) return;
    this.app.selectNode(node);
    this.app.unfold(node);
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
    const { changes } = this;
    const { facts } = changes;
    if (!facts.timed) {
      this.element.append(made("p", "soft", "Times are not compared: one of the traces has none (level graph)."));
      return;
    }
    this.title("Times");
    const [before, now] = facts.times.steps;
    if (!changes.enough) {
      this.element.append(made("p", "soft", `Too few steps to compare times: ${count(before)} and ${count(now)} without the first, which warms up; 5 are needed. One run of each is one sample, so the times below are shown without a verdict.`));
      this.plainTimes();
      return;
    }
    this.element.append(made("p", "soft", `Medians over the steps of each run: ${count(before)} and ${count(now)}, without the first, which warms up. Slower or faster is what differs by more than the quartiles of both. One run of each is still one sample of the machine.`));
    if (facts.times.step) this.element.append(made("p", "", `All nodes of backward, per step: ${spread(.../** @type {[number, number, number]} */ (facts.times.step[0]))} → ${spread(.../** @type {[number, number, number]} */ (facts.times.step[1]))}: ${VERDICTS[facts.times.verdict + 1]}.`));
    for (const [kind, title, most] of /** @type {[number, string, number][]} */ ([[SLOWER, "Slower", SLOWEST], [FASTER, "Faster", SLOWEST / 2]])) {
      const rows = this.onePerStep([...changes.more.keys()].filter((node) => changes.verdict[node] === kind));
      rows.sort((one, other) => Math.abs(changes.more[other]) - Math.abs(changes.more[one]));
      this.title(title);
      if (!rows.length) this.element.append(made("p", "soft", `No node of backward is clearly ${title.toLowerCase()} than before.`));
      this.list(rows, (node) => this.took(node), most);
    }
  }

  /** Nodes of one step only: those of the other steps have the same medians. @param {number[]} nodes */
  onePerStep(nodes) {
    const steps = this.app.model.nodes.get("step");
    const known = nodes.map((node) => steps[node]).filter((step) => step >= 0);
    const last = Math.max(...known, -1);
    return nodes.filter((node) => steps[node] < 0 || steps[node] === last);
  }

  /** The times of one run each, longest differences first. */
  plainTimes() {
    const { app, changes } = this;
    const gone = Array.from(app.model.tables.gone.get("ran")).reduce((sum, each) => sum + Math.max(each, 0), 0);
    const before = changes.beforeIn[0] + gone;
    this.element.append(made("p", "", `Total time of nodes: ${change(before, app.tree.ns[0])}.`));
    const least = WORTH * Math.max(before, app.tree.ns[0]);
    const rows = [...changes.more.keys()].filter((node) => Math.abs(changes.more[node]) > least && !changes.isNew(node));
    rows.sort((one, other) => Math.abs(changes.more[other]) - Math.abs(changes.more[one]));
    if (rows.length) this.title("Largest differences in time");
    this.list(rows, (node) => this.took(node), SLOWEST);
  }

  /** @param {number} node */
  took(node) {
    return [this.toNode(node), made("span", "soft", ` ${timesOf(this.changes, node)}`)];
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
      const title = gone.text("title", row);
      const said = [gone.get("row")[row] >= 0 ? link(title, () => this.sides.showBefore(gone.get("row")[row])) : made("span", "", title), made("span", "soft", ` ${gone.text("place", row)} `)];
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
  if (!group && changes.changeOf[box.node] >= 0) said.push(`≠ ${app.model.tables.changes.text("text", changes.changeOf[box.node])}`);
  else if (!group && changes.isNew(box.node)) said.push(`+ new: ${before} has no such ${isForward ? "call" : "node"}`);
  if (group && changes.changedIn[box.group]) said.push(`≠ ${plural(changes.changedIn[box.group], one, many)} changed`);
  if (group && changes.newIn[box.group]) said.push(`+ ${plural(changes.newIn[box.group], one, many)} that ${before} does not have`);
  const gone = group ? changes.goneIn[box.group] : changes.goneFrom(box.node).length;
  if (gone) said.push(`− ${plural(gone, one, many)} gone ${group ? "from here" : "in front of it"}`);
  const ran = group ? changes.beforeIn[box.group] : changes.before[box.node];
  if (changes.facts.timed && ran >= 0 && (group || changes.status[box.node] === 1)) {
    const what = changes.enough ? "median of the steps" : "time (one sample each)";
    said.push(`${group && changes.enough ? "sum of median times" : what} ${group ? change(ran, changes.nowIn[box.group]) : timesOf(changes, box.node)}`);
  }
  return [made("h3", "", `Since ${before}`), ...said.map((each) => made("p", "", each))];
}
