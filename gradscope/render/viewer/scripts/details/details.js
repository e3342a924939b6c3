/** The details of the selection: state, gradients, order, saved values, source lines. */

import { since } from "../comparing/compared.js";
import { finding } from "../panels/lists.js";
import { chip, link, made } from "../panels/outline.js";
import { GLYPHS, WORDS } from "../core/state.js";
import { sameInOtherSteps } from "../core/twins.js";
import { CallFacts } from "./call_facts.js";
import { Source } from "./source.js";
import { MARKS } from "../paint/paint.js";
import { byteCount, count, duration, ordinal, plural } from "../core/words.js";

/** @typedef {import("../core/app.js").App} App */

/** From so many times the longest of other steps on, a node is said to be an outlier. */
const OUTLIER = 3;

/** The panel on the right. */
export class Details extends CallFacts {
  /** @param {import("../core/forward.js").Graphs} graphs */
  constructor(graphs) {
    super(graphs);
    const { app } = this;
    this.source = new Source(app, this.element);
    app.follow((changes) => {
      if (changes.has("selection") || changes.has("backward") || changes.has("picture") && (app.group >= 0 || app.tree.insides.has(app.node))) this.show();
      else if (changes.has("event")) this.showMoment();
    });
    this.show();
  }

  show() {
    const { app, element, graphs } = this;
    const { call } = graphs;
    const what = `${app.node} ${app.group} ${call}`;
    const top = this.shown === what ? element.scrollTop : 0;
    this.shown = what;
    this.run = app.runOf(app.node);
    this.moment = made("div");
    element.replaceChildren();
    if (call >= 0) this.call(call);
    if (app.node >= 0) this.node(app.node);
    else if (call >= 0) this.source.show(graphs.forward.model.frameOf(call), graphs.forward.model.frames(graphs.forward.model.nodes.get("stack")[call]));
    else if (app.group >= 0) this.group(app.group);
    else if (graphs.shown !== app && graphs.shown.group >= 0) this.groupOfCalls(graphs.shown.group);
    else this.whole();
    element.scrollTop = top;
  }

  /** Update what depends on the playhead; everything if another run of the node is shown. */
  showMoment() {
    const { app } = this;
    if (app.node >= 0 && app.runOf(app.node) !== this.run) {
      this.show();
      return;
    }
    this.moment.replaceChildren();
    if (app.node >= 0) this.stateLine(app.node);
    else if (app.group >= 0) this.stateCounts(app.group);
  }

  // The whole ----------------------------------------------------------------------------------

  whole() {
    const { app, element } = this;
    const { model } = app;
    const { facts } = model;
    element.append(made("h2", "", facts.script));
    const part = facts.part ? `only ${facts.part} ${facts.part.startsWith("steps") ? "are" : "is"} on this page` : "the whole trace is on this page";
    element.append(made("p", "under", `${facts.producer}, level ${facts.level || "unknown"}; ${part}.`));
    const { whole } = facts;
    this.facts([
      ...(app.rank < 0 ? [] : [/** @type {[string, string]} */ (["rank", `${app.rank}, one of ${count(facts.ranks.length)}; the figures below are of all`])]),
      ["nodes", count(whole.nodes)], ["edges", count(whole.edges)], ["backwards", count(whole.backwards)], ["events", count(whole.events)],
      ["in this view", `${plural(this.graphs.shown.tree.nodeCount[this.graphs.shown.root], this.graphs.shown === app ? "node" : "call")}, ${plural(this.graphs.shown.picture.all.length, "box", "boxes")} drawn`],
    ]);
    element.append(made("p", "soft", "Select a node, a bar, a finding or a line: all panels follow. A double click opens or folds a box. Press ? for the keys."));
    this.aboutForward();
    if (app.backward >= 0) this.backward(app.backward);
    this.source.show(-1);
  }

  /** @param {number} backward */
  backward(backward) {
    const { model } = this.app;
    const { backwards } = model;
    this.section("This backward");
    const begin = backwards.get("begin")[backward];
    const end = backwards.get("end")[backward];
    const facts = /** @type {[string, string | Node][]} */ ([["called", model.backwardName(backward, false)]]);
    const own = this.ownWork(begin, end);
    if (end >= 0) facts.push(["took", duration(end - begin) + (own > 0 ? `, of it ${duration(own)} gradscope's own compiling` : "")]);
    else facts.push(["took", "did not end"]);
    const error = backwards.text("error", backward);
    if (error) facts.push(["raised", made("span", "alarm", error)]);
    this.facts(facts);
    const call = backwards.text("call", backward);
    if (call) this.element.append(made("code", "", call));
  }

  /** How much of a period gradscope itself worked. @param {number} begin @param {number} end */
  ownWork(begin, end) {
    const { spans } = this.app.model.tables;
    return [...spans.get("begin").keys()].filter((row) => spans.text("phase", row) === "own work")
      .reduce((sum, row) => sum + Math.max(0, Math.min(spans.get("end")[row], end) - Math.max(spans.get("begin")[row], begin)), 0);
  }

  // A group ------------------------------------------------------------------------------------

  /** @param {number} group */
  group(group) {
    const { app, element } = this;
    const { tree, model } = app;
    element.append(made("h2", "", tree.title(group)));
    element.append(made("p", "under", `${model.facts.forms[tree.form[group]] === "all" ? "the whole trace" : model.facts.forms[tree.form[group]]}, inside ${tree.parent[group] < 0 ? "nothing" : tree.title(tree.parent[group])}`));
    const facts = /** @type {[string, string | Node][]} */ ([["nodes", count(tree.nodeCount[group])]]);
    if (tree.leafCount[group]) facts.push(["leaves", count(tree.leafCount[group])]);
    if (tree.ns[group]) facts.push(["ran", `${duration(tree.ns[group])} in total, without nodes that ran inside its nodes`]);
    const slowest = tree.form[group] === 4 ? tree.slowestTurn(group) : null;
    if (slowest) facts.push(["slowest", `${slowest.title}, ${duration(slowest.ns)}`]);
    this.facts(facts);
    element.append(...since(app, { is: "group", group }));
    element.append(link(app.open.has(group) ? "fold it (Enter)" : "open it (Enter)", () => app.toggle(group)));
    if (model.engineSeen) {
      element.append(this.moment);
      this.stateCounts(group);
    }
    this.through(group);
    this.slowestIn(group);
    this.savedIn(group);
    const first = tree.first[group];
    if (first < model.nodes.length) this.source.show(model.frameOf(first));
  }

  /** @param {number} group */
  stateCounts(group) {
    const { app } = this;
    if (!app.model.engineSeen) return;
    this.moment.append(made("h3", "", "At this event"));
    const counts = app.states.counts(app.tree.nodesUnder(group));
    this.facts(counts.map((each, state) => /** @type {[string, string]} */ ([`${GLYPHS[state]} ${WORDS[state]}`, count(each)])).filter(([, each]) => each !== "0"), this.moment);
  }

  /** @param {number} group */
  slowestIn(group) {
    const { app } = this;
    const ran = new Map([...app.tree.nodesUnder(group)].map((node) => [node, app.nsOf(node)]));
    const nodes = [...ran].filter(([, ns]) => ns > 0).sort(([, one], [, other]) => other - one);
    if (!nodes.length) return;
    this.section("Slowest nodes");
    this.list(nodes, ([node, ns]) => [this.toNode(node), made("span", "soft", ` ${duration(ns)}`)], 6);
  }

  /** @param {number} group */
  savedIn(group) {
    const { app } = this;
    const { saved } = app.model.tables;
    const rows = [...app.tree.nodesUnder(group)].flatMap((node) => [...app.model.savedOf.of(node)]);
    if (!rows.length) return;
    const bytes = saved.get("bytes");
    rows.sort((one, other) => bytes[other] - bytes[one]);
    this.section(`Saves ${byteCount(rows.reduce((sum, row) => sum + bytes[row], 0))} for backward, counted for each node`);
    this.list(rows, (row) => [this.toNode(saved.get("node")[row]), ` ${saved.text("slot", row)} `, made("span", "soft", `${saved.text("shape", row)}, ${byteCount(bytes[row])}`)], 6);
  }

  // A node -------------------------------------------------------------------------------------

  /** @param {number} node */
  node(node) {
    const { app, element } = this;
    const { model } = app;
    const { nodes } = model;
    const title = made("h2");
    title.append(chip(nodes.get("kind")[node], model.isLeaf(node)), ` ${model.title(node)}`);
    element.append(title);
    const leaf = model.isLeaf(node) ? `${model.unique(node)} · ` : "";
    const saved = [...model.savedOf.of(node)].reduce((sum, row) => sum + model.tables.saved.get("bytes")[row], 0);
    const inShort = [app.nsOf(node) > 0 ? `ran ${duration(app.nsOf(node))}` : "", saved ? `saves ${byteCount(saved)}` : ""].filter(Boolean).map((each) => ` · ${each}`);
    element.append(made("p", "under", `${leaf}${model.facts.kinds[nodes.get("kind")[node]]} · node ${nodes.get("id")[node]}${inShort.join("")}`));
    element.append(this.moment);
    this.stateLine(node);
    this.remarkable(node);
    element.append(...since(app, { is: "node", node }));
    this.gradients(node);
    this.why(node);
    this.runs(node);
    this.values(node);
    this.saved(node);
    this.region(node);
    this.hooks(node);
    this.made(node);
    this.source.show(model.frameOf(node));
  }

  /** @param {number} node */
  stateLine(node) {
    const { app } = this;
    if (!app.model.engineSeen) {
      this.moment.append(made("p", "soft", "When it ran is not recorded at level graph."));
      return;
    }
    const state = app.states.of[node];
    const line = made("div", `state-line ${WORDS[state].replace(" ", "-")}`);
    const [come, all] = app.states.gradients(node);
    const pips = all ? ` · ${come} of ${plural(all, "gradient")} arrived` : "";
    line.append(made("strong", "", `${GLYPHS[state]} ${WORDS[state]}`), made("span", "", `at this event${pips}`));
    this.moment.append(line);
  }

  /** @param {number} node */
  remarkable(node) {
    const { model } = this.app;
    for (const row of model.findingsOf.of(node)) this.element.append(finding(model, row));
    const marks = model.marksOf(node);
    if (!marks.length) return;
    const line = made("p");
    for (const mark of marks) line.append(made("span", /first|raised|finite/.test(mark) ? "alarm" : "", `${MARKS[mark]} ${mark}   `));
    this.element.append(line);
  }

  /** @param {number} node */
  why(node) {
    const { app } = this;
    const { runs } = app.model;
    const run = app.runOf(node);
    if (run < 0) return;
    const cells = (/** @type {string} */ name) => runs.get(name)[run];
    this.section("Why it ran when it did");
    const parts = /** @type {(string | Node)[]} */ ([]);
    if (cells("pushed_t") >= 0 && cells("begun_t") >= 0) {
      parts.push(`It was ready for ${duration(cells("begun_t") - cells("pushed_t"))} in queue ${cells("queue")}`);
      const [before, others] = this.ranBefore(run);
      if (before >= 0) parts.push("; ", this.toNode(before), others ? ` and ${plural(others, "other node")} were ahead in the queue` : " was ahead in the queue");
      parts.push(". ");
    } else parts.push("When it became ready was not recorded. ");
    if (cells("after") >= 0) parts.push("The last gradient it waited for came from ", this.toNode(cells("after")), ".");
    else parts.push("The backward starts here.");
    const said = made("p");
    said.append(...parts);
    this.element.append(said);
    const facts = /** @type {[string, string | Node][]} */ ([]);
    if (cells("position") > 0) facts.push(["ran", `${ordinal(cells("position"))}, for ${cells("self_ns") >= 0 ? duration(cells("self_ns")) : "an unknown time"}`]);
    const elsewhere = this.inOtherSteps(node, cells("self_ns"));
    if (elsewhere) facts.push(["other steps", elsewhere]);
    const thread = [...app.model.tables.threads.get("id")].indexOf(cells("thread"));
    if (thread >= 0) facts.push(["thread", app.model.tables.threads.text("name", thread)]);
    this.facts(facts);
    const events = made("p", "", app.backward < 0 ? "Events: " : "Events of this backward: ");
    for (const [name, word] of [["pushed", "pushed"], ["begun", "started"], ["ended", "ended"]]) {
      if (cells(name) >= 0) events.append(link(`${word}: event ${count(app.eventNumber(cells(name)))}`, () => app.go(cells(name))), " ");
    }
    this.element.append(events);
  }

  /** How long the same node ran in the other steps: a node that took long only once is seen by that. @param {number} node @param {number} ns how long it ran here */
  inOtherSteps(node, ns) {
    const { app } = this;
    const own = app.model.runs.get("self_ns");
    const times = sameInOtherSteps(app, node).flatMap((twin) => [...app.model.runsOf.of(twin)]).map((run) => own[run]).filter((ns) => ns >= 0).sort((one, other) => one - other);
    if (!times.length) return "";
    const median = duration(times[Math.floor((times.length - 1) / 2)]);
    if (times.length < 3) return times.map(duration).join(", ");
    const longest = times[times.length - 1];
    const outlier = ns >= OUTLIER * Math.max(longest, 1) ? `; here ${count(Math.round(ns / Math.max(longest, 1)))} times the longest` : "";
    return `median ${median} of ${count(times.length)} (${duration(times[0])} to ${duration(longest)})${outlier}`;
  }

  /** The node that ran from the same queue just before, and how many others ran while this one was ready. @param {number} run @returns {[number, number]} */
  ranBefore(run) {
    const { runs } = this.app.model;
    const { begun, queue, node, pushed, backward } = runs.columns;
    let [best, ahead] = [-1, 0];
    for (let each = 0; each < runs.length; each += 1) {
      if (each === run || queue[each] !== queue[run] || backward[each] !== backward[run] || begun[each] < 0) continue;
      if (begun[each] >= begun[run] || begun[each] <= pushed[run]) continue;
      ahead += 1;
      if (best < 0 || begun[each] > begun[best]) best = each;
    }
    return best < 0 ? [-1, 0] : [node[best], ahead - 1];
  }

  /** @param {number} node */
  runs(node) {
    const { app } = this;
    const { model } = app;
    const { runs, backwards } = model;
    const rows = model.runsOf.of(node);
    if (rows.length < 2) return;
    this.section(`Ran ${rows.length} times`);
    const rank = model.rankOf(node) < 0 ? "" : `rank ${model.rankOf(node)}, `;
    this.list(rows, (run) => [
      link(`${rank}backward ${backwards.get("number")[runs.get("backward")[run]]}`, () => { app.setBackward(runs.get("backward")[run]); app.selectNode(node); }),
      made("span", "soft", ` ${ordinal(Math.max(runs.get("position")[run], 0))}, ${duration(runs.get("self_ns")[run])}`),
    ]);
  }
}
