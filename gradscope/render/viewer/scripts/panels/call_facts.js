/** All about a forward call: what it was given, what it returned, the node it made, or why it made none. */

import { since } from "./compared.js";
import { chip, link, listed, made } from "./outline.js";
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
      this.section("Which tensor goes where is not recorded");
      this.list(given, (edge) => ["began after ", ...this.flow(edge, "head")]);
      this.list(used, (edge) => ["and before ", ...this.flow(edge, "tail")]);
      return;
    }
    if (!data) {
      this.section(given.length ? `Was given ${plural(given.length, "tensor")}` : "What it was given is not recorded, or it was given nothing");
      this.list(given, (edge) => this.flow(edge, "head"));
    }
    this.section(used.length ? `Goes to ${plural(used.length, "call")}` : "No call that is known was given it");
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
    if (nodes.get("inside")[call]) facts.push(["inside it", plural(nodes.get("inside")[call], "call")]);
    const node = graphs.nodeOf(call);
    if (node >= 0) facts.push([model.isLeaf(call) ? "its gradient" : "made", link(graphs.main.model.unique(node), () => this.inBackward(node))]);
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

  /** One end of a flow: the call or the data, which of its results, its line. @param {number} edge @param {"tail" | "head"} end */
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

  /** What is selected in the forward graph and in no other: a loop or a stretch of calls. @param {number} group */
  groupOfCalls(group) {
    const { forward } = this.graphs;
    const { tree, model } = forward;
    this.element.append(made("h2", "", tree.title(group)), made("p", "under", `${model.facts.forms[tree.form[group]]} of the forward graph`));
    this.facts([["calls", String(tree.nodeCount[group])], ["took", duration(tree.ns[group])]]);
    this.element.append(link(forward.open.has(group) ? "fold it (Enter)" : "open it (Enter)", () => forward.toggle(group)));
    const calls = [...forward.nodesUnder(group)].filter((call) => !model.isLeaf(call));
    this.section("Calls");
    this.element.append(listed(calls, (call) => [link(model.title(call), () => forward.selectNode(call)), made("span", "soft", ` ${model.nodes.text("shape", call)}`)], 12));
  }

  /** What the forward graph says of itself: what is left out, inferred, and not recorded. */
  aboutForward() {
    const { forward } = this.app.model.facts;
    this.section("The forward graph");
    const list = made("ul");
    for (const each of forward.notes ?? [forward.absent]) list.append(made("li", "soft", each));
    const arrows = forward.in_order ? "arrows lead to the call that began next, since which tensor goes where is not recorded" : "arrows are tensors, from data to results";
    if (this.graphs.isThere) list.append(made("li", "soft", `Boxes are calls; ${arrows}. The colours of states are those of the node a call made.`));
    this.element.append(list);
  }
}
