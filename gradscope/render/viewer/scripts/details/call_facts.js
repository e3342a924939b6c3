/** Facts about a forward call: inputs, results, the node it created, or why it created none. */

import { since } from "../comparing/compared.js";
import { chip, link, listed, made } from "../panels/outline.js";
import { GradientFacts } from "./gradients.js";
import { MODULE } from "../core/tree.js";
import { duration, plural } from "../core/words.js";

/** A part of the details. */
export class CallFacts extends GradientFacts {
  /** @param {number} call */
  call(call) {
    const { element, graphs } = this;
    const app = graphs.forward;
    const { model } = app;
    const { nodes } = model;
    const data = model.isLeaf(call);
    const title = made("h2");
    title.append(chip(nodes.get("kind")[call], data), ` ${model.title(call)}`);
    element.append(title, made("p", "under", data ? `data · tensor ${nodes.get("id")[call]}` : `forward call · ${model.facts.kinds[nodes.get("kind")[call]]} · call ${nodes.get("id")[call]}`));
    this.facts(this.aboutCall(call));
    if (!data) element.append(...since(app, { is: "node", node: call }));
    const given = app.edgesOf(call, "gives");
    const used = app.edgesOf(call, "takes");
    if (model.facts.forward.in_order) {
      this.section("Not recorded: which tensor goes where");
      this.list(given, (edge) => ["started after ", ...this.flow(edge, "head")]);
      this.list(used, (edge) => ["and before ", ...this.flow(edge, "tail")]);
      return;
    }
    if (!data) {
      this.section(given.length ? plural(given.length, "input tensor") : "No inputs, or they were not recorded");
      this.list(given, (edge) => this.flow(edge, "head"));
    }
    this.section(used.length ? `Used by ${plural(used.length, "call")}` : "Not used by any known call");
    this.list(used, (edge) => this.flow(edge, "tail"));
  }

  /** @param {number} call @returns {[string, string | Node][]} */
  aboutCall(call) {
    const { graphs } = this;
    const { model, tree } = graphs.forward;
    const { nodes } = model;
    const facts = /** @type {[string, string | Node][]} */ ([]);
    const results = nodes.get("results")[call];
    const shape = nodes.text("shape", call);
    if (shape) facts.push([model.isLeaf(call) ? "is" : "returned", results > 1 ? `${shape}, and ${plural(results - 1, "more result")}` : shape]);
    if (nodes.get("op_ns")[call] >= 0) facts.push(["took", duration(nodes.get("op_ns")[call])]);
    if (nodes.text("writes", call)) facts.push(["wrote in place", nodes.text("writes", call)]);
    if (nodes.get("inside")[call]) facts.push(["contains", plural(nodes.get("inside")[call], "call")]);
    const node = graphs.nodeOf(call);
    if (node >= 0) facts.push([model.isLeaf(call) ? "its gradient" : "node", link(graphs.main.model.unique(node), () => this.inBackward(node))]);
    else if (nodes.text("why", call)) facts.push(["node", nodes.text("why", call)]);
    const group = tree.around(tree.of[call]).find((each) => tree.form[each] === MODULE);
    if (group !== undefined) facts.push(["module", link(model.groups.text("path", group), () => graphs.forward.showGroup(group))]);
    return facts;
  }

  /** @param {number} node */
  inBackward(node) {
    this.graphs.show(false);
    this.app.selectNode(node);
    this.app.unfold(node);
  }

  /** One end of an edge: the call or data, which result, and its line. @param {number} edge @param {"tail" | "head"} end */
  flow(edge, end) {
    const { forward } = this.graphs;
    const { model } = forward;
    const call = model.edges.get(end)[edge];
    const output = model.edges.get("output")[edge];
    const frame = model.frameOf(call);
    const source = model.edges.get("head")[edge];
    const shape = model.edges.text("shape", edge) || (output === 0 || model.isLeaf(source) ? model.nodes.text("shape", source) : "");
    const more = [
      end === "head" && model.nodes.get("results")[call] > 1 && output >= 0 ? ` result ${output}` : "",
      frame >= 0 ? ` ${model.shortPlace(frame)}` : "", ` ${shape}`, model.edges.text("how", edge) && `, ${model.edges.text("how", edge)}`,
    ];
    return [link(model.title(call), () => forward.selectNode(call)), made("span", "soft", more.join(""))];
  }

  /** A selected group that exists only in the forward graph: a loop or a range of calls. @param {number} group */
  groupOfCalls(group) {
    const { forward } = this.graphs;
    const { tree, model } = forward;
    this.element.append(made("h2", "", tree.title(group)), made("p", "under", `${model.facts.forms[tree.form[group]]} of the forward graph`));
    this.facts([["calls", String(tree.nodeCount[group])], ["took", duration(tree.ns[group])]]);
    this.element.append(link(forward.open.has(group) ? "fold it (Enter)" : "open it (Enter)", () => forward.toggle(group)));
    const calls = [...forward.tree.nodesUnder(group)].filter((call) => !model.isLeaf(call));
    this.section("Calls");
    this.element.append(listed(calls, (call) => [link(model.title(call), () => forward.selectNode(call)), made("span", "soft", ` ${model.nodes.text("shape", call)}`)], 12));
  }

  /** What the boxes and arrows of the forward graph are, where it is shown. */
  aboutForward() {
    const { graphs } = this;
    if (graphs.shown === graphs.main) return;
    const arrows = this.app.model.facts.forward.in_order ? "arrows lead to the next call in time, since which tensor goes where is not recorded" : "arrows are tensors, from data to results";
    this.element.append(made("p", "soft", `Boxes are calls; ${arrows}. State colors are those of the node that a call created.`));
  }
}
