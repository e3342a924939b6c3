/** Incoming and outgoing gradients of a node, a leaf or a module. */

import { link, listed, made } from "../panels/outline.js";
import { NodeFacts } from "./node_facts.js";
import { MODULE } from "../core/tree.js";
import { duration, plural } from "../core/words.js";

const EACH = 4;

/** A part of the details. */
export class GradientFacts extends NodeFacts {
  /** A link to the innermost module of a node, if any. @param {number} node @returns {(string | Node)[]} */
  toModule(node) {
    const { app } = this;
    const { tree, model } = app;
    const group = tree.around(app.homeOf(node)).find((each) => tree.form[each] === MODULE);
    return group === undefined ? [] : [" of ", link(model.groups.text("path", group), () => app.showGroup(group))];
  }

  /** A link to the line that created a node. @param {number} node @returns {(string | Node)[]} */
  toLine(node) {
    const { app } = this;
    const frame = app.model.frameOf(node);
    if (frame < 0) return [];
    return [" ", link(app.model.shortPlace(frame), () => {
      app.selectNode(node);
      app.flush();
      this.element.querySelector(".source .here")?.scrollIntoView({ block: "center" });
    })];
  }

  /** One end of an edge: the node, its module and line, and the gradient. @param {number} edge @param {"tail" | "head"} end @returns {(string | Node)[]} */
  end(edge, end) {
    const { model } = this.app;
    const { edges } = model;
    const node = edges.get(end)[edge];
    const shape = edges.text("shape", edge);
    const which = end === "tail" && this.outputs(node) > 1 ? [made("span", "soft", ` output ${edges.get("output")[edge]}`)] : [];
    return [this.toNode(node), ...which, ...this.toModule(node), ...this.toLine(node), made("span", "soft", shape && ` ${shape}`)];
  }

  /** The number of outputs of a node with gradients. @param {number} node */
  outputs(node) {
    const { edges, gives } = this.app.model;
    return new Set([...gives.of(node)].map((edge) => edges.get("output")[edge])).size;
  }

  /** Gradients grouped by the number of the result they belong to. @param {number[]} edges @returns {number[][]} */
  byResult(edges) {
    const { head, input } = this.app.model.edges.columns;
    /** @type {Map<string, number[]>} */
    const found = new Map();
    for (const edge of edges) {
      const result = `${head[edge]} ${input[edge]}`;
      found.set(result, [...found.get(result) ?? [], edge]);
    }
    return [...found.values()].sort(([one], [other]) => head[other] - head[one] || input[one] - input[other]);
  }

  /** How the gradients of one result are combined. @param {number[]} from */
  summed(from) {
    const { app } = this;
    if (from.length === 1) return "it";
    return app.backward < 0 && app.model.backwards.length > 1 ? `${from.length} gradients, in all backwards,` : `the sum of ${from.length} gradients`;
  }

  /** The receivers of gradients, each with the senders. @param {number[]} into @param {boolean} [leaves] which have no line of their own */
  taken(into, leaves = false) {
    const { edges, takes } = this.app.model;
    this.list(this.byResult(into), (from) => {
      const node = edges.get("head")[from[0]];
      const which = this.byResult([...takes.of(node)]).length > 1 ? ` result ${edges.get("input")[from[0]]}` : "";
      return [
        this.toNode(node), which, ...(leaves ? [] : [...this.toModule(node), ...this.toLine(node)]),
        made("span", "soft", ` receives ${this.summed(from)} from`), listed(from, (edge) => this.end(edge, "tail"), EACH),
      ];
    });
  }

  // Of a group ---------------------------------------------------------------------------------

  /** The gradients that enter a group, those of its leaves, and those that leave it. @param {number} group */
  through(group) {
    const { app } = this;
    const { model, tree } = app;
    const inside = new Set(app.tree.nodesUnder(group));
    const is = (/** @type {number} */ edge, /** @type {"tail" | "head"} */ end) => inside.has(model.edges.get(end)[edge]);
    const taken = [...inside].flatMap((node) => app.edgesOf(node, "takes"));
    const into = taken.filter((edge) => !is(edge, "tail"));
    const leaf = (/** @type {number} */ edge) => model.isLeaf(model.edges.get("head")[edge]);
    const results = into.filter((edge) => !leaf(edge));
    const word = tree.form[group] === MODULE ? "Where its gradient comes from" : "Incoming gradients";
    this.section(results.length ? `${word}: ${plural(results.length, "gradient")}` : word);
    if (results.length) this.taken(results);
    else this.element.append(made("p", "soft", `No node outside sends it a gradient${[...inside].some((node) => model.has(node, "backward starts here")) ? ": the backward starts inside" : ""}.`));
    const out = [...inside].flatMap((node) => app.edgesOf(node, "gives")).filter((edge) => !is(edge, "head") && !leaf(edge));
    this.section(`Where it goes: ${plural(out.length, "gradient")}, besides those of its leaves`);
    this.list(out, (edge) => ["to ", ...this.end(edge, "head"), made("span", "soft", " from "), this.toNode(model.edges.get("tail")[edge])]);
    const leaves = taken.filter(leaf);
    if (!leaves.length) return;
    this.section(`Gradients of its ${plural(new Set(leaves.map((edge) => model.edges.get("head")[edge])).size, "leaf", "leaves")}`);
    this.taken(leaves, true);
  }

  // Of a node ----------------------------------------------------------------------------------

  /** @param {number} node */
  gradients(node) {
    const { app } = this;
    const { model } = app;
    const takes = app.edgesOf(node, "takes");
    const gives = app.edgesOf(node, "gives");
    const all = app.backward < 0 && model.backwards.length > 1 ? ", in all backwards" : "";
    const results = this.byResult(takes);
    const sum = !all && results.length === 1 && takes.length > 1 ? "the sum of " : "";
    this.section(takes.length ? `Where its gradient comes from: ${sum}${plural(takes.length, "gradient")}${all}` : "Receives no gradient");
    for (const from of results) {
      if (results.length > 1) this.element.append(made("p", "soft", `result ${model.edges.get("input")[from[0]]} receives ${this.summed(from)} from`));
      this.list(from, (edge) => (results.length > 1 ? this.end(edge, "tail") : ["from ", ...this.end(edge, "tail")]));
    }
    if (model.isLeaf(node)) this.arrivals(node);
    if (model.isLeaf(node) && !gives.length) return;
    this.section(`Sends ${plural(gives.length, "gradient")}`);
    this.list(gives, (edge) => ["to ", ...this.end(edge, "head")]);
  }

  /** @param {number} node */
  arrivals(node) {
    const { arrivals } = this.app.model.tables;
    const rows = this.here([...arrivals.get("node").keys()].filter((row) => arrivals.get("node")[row] === node), arrivals);
    if (!rows.length) return;
    this.section("Arrivals in .grad");
    this.list(rows, (row) => [`${arrivals.text("how", row)} at ${duration(arrivals.get("t")[row])}`]);
  }
}
