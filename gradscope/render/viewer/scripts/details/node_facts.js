/** Facts about a node besides its runs: values, saved values, hooks, the call that created it. */

import { link, made } from "../panels/outline.js";
import { Facts } from "./facts.js";
import { byteCount, count, duration, number, plural } from "../core/words.js";

const MOST_NUMBERS = 12;

/** A part of the details. */
export class NodeFacts extends Facts {
  /** The rows of the backward shown, and those of no backward. @param {Iterable<number>} rows @param {import("../core/data.js").Table} table */
  here(rows, table) {
    const { backward } = this.app;
    const of = table.get("backward");
    return [...rows].filter((row) => backward < 0 || of[row] < 0 || of[row] === backward);
  }

  /** @param {number} node */
  values(node) {
    const { values } = this.app.model.tables;
    const rows = this.here(this.app.model.valuesOf.of(node), values);
    if (!rows.length) return;
    this.section("Values");
    const table = made("table");
    const head = made("tr");
    for (const name of ["where", "min", "max", "rms", "NaN", "Inf"]) head.append(made("th", "", name));
    table.append(head);
    const add = (/** @type {number} */ row) => {
      const line = made("tr");
      const nan = values.get("nan")[row];
      const inf = values.get("inf")[row];
      line.append(made("td", "", `${values.text("place", row)} ${Math.max(values.get("index")[row], 0)}`));
      for (const name of ["min", "max", "rms"]) line.append(made("td", "", number(values.get(name)[row])));
      line.append(made("td", nan ? "alarm" : "", count(nan)), made("td", inf ? "alarm" : "", count(inf)));
      table.append(line);
    };
    for (const row of rows.slice(0, MOST_NUMBERS)) add(row);
    this.element.append(table);
    if (rows.length <= MOST_NUMBERS) return;
    const rest = link(`⋯ ${count(rows.length - MOST_NUMBERS)} more`, () => {
      for (const row of rows.slice(MOST_NUMBERS)) add(row);
      rest.remove();
    });
    this.element.append(rest);
  }

  /** @param {number} node */
  saved(node) {
    const { saved } = this.app.model.tables;
    const rows = this.app.model.savedOf.of(node);
    if (!rows.length) return;
    const bytes = [...rows].reduce((sum, row) => sum + saved.get("bytes")[row], 0);
    this.section(`Saves ${byteCount(bytes)} for backward`);
    this.list(rows, (row) => {
      const until = saved.get("released")[row];
      return [`${saved.text("slot", row)} ${saved.text("shape", row)}, ${byteCount(saved.get("bytes")[row])}`,
        made("span", "soft", until >= 0 ? `, for ${duration(until - saved.get("t")[row])}` : ", still held at the end of the trace")];
    });
  }

  /** @param {number} node */
  region(node) {
    const { nodes, tables } = this.app.model;
    const { graphs } = this;
    const region = nodes.get("region")[node];
    const rows = [...tables.regions.get("region").keys()].filter((row) => region >= 0 && tables.regions.get("region")[row] === region);
    if (!rows.length) return;
    this.section("Inside the compiled region, as the compiler reported it");
    const app = graphs.shown;
    const here = app === this.app ? node : app.node;
    if (app.tree.insides.has(here)) this.element.append(link(app.open.has(~here) ? "fold it (Enter)" : "open it (Enter)", () => app.toggle(~here)));
    this.list(rows, (row) => [tables.regions.text("text", row)]);
  }

  /** @param {number} node */
  hooks(node) {
    const { hooks } = this.app.model.tables;
    const rows = this.here(this.app.model.hooksOf.of(node), hooks);
    if (!rows.length) return;
    this.section(plural(rows.length, "hook call"));
    this.list(rows, (row) => [
      `${hooks.text("kind", row)} hook ${hooks.text("name", row) || "without a name"} ${hooks.text("place", row)}`,
      made("span", "soft", `, ${duration(hooks.get("end")[row] >= 0 ? hooks.get("end")[row] - hooks.get("begin")[row] : -1)}${hooks.get("replaced")[row] ? ", replaced the gradient" : ""}`),
    ]);
  }

  /** The call that created a node, as a link into the forward graph if it is there. @param {number} node @param {string} text */
  toCall(node, text) {
    const { graphs } = this;
    if (!graphs.isThere || graphs.callOf(node) < 0) return text;
    return link(text, () => {
      graphs.show(true);
      graphs.forward.selectNode(graphs.callOf(node));
      graphs.forward.unfold(graphs.callOf(node));
    });
  }

  /** @param {number} node */
  made(node) {
    const { model, tree } = this.app;
    const { nodes } = model;
    this.section("Created by");
    const facts = /** @type {[string, string | Node][]} */ ([]);
    const op = nodes.text("op", node);
    const took = nodes.get("op_ns")[node];
    if (op) facts.push(["call", this.toCall(node, `${op}${took >= 0 ? `, ${duration(took)}` : ""}`)]);
    if (nodes.text("shape", node)) facts.push(["result", nodes.text("shape", node)]);
    if (nodes.text("module", node)) facts.push(["module", nodes.text("module", node)]);
    const group = this.app.homeOf(node);
    if (group > 0) facts.push(["in", link(tree.title(group), () => this.app.selectGroup(group))]);
    if (model.rankOf(node) >= 0) facts.push(["rank", String(model.rankOf(node))]);
    if (nodes.get("step")[node] >= 0) facts.push(["step", String(nodes.get("step")[node])]);
    if (nodes.get("made_in")[node] >= 0) facts.push(["created in", `backward ${nodes.get("made_in")[node]} (create_graph)`]);
    if (nodes.get("sequence")[node] >= 0) facts.push(["sequence_nr", count(nodes.get("sequence")[node])]);
    if (nodes.get("guessed")[node]) facts.push(["name", "taken from its source line"]);
    this.facts(facts);
  }
}
