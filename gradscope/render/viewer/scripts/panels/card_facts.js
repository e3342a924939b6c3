/** What the card says of a box or a frame of the graph. */

import { GLYPHS, WORDS } from "../core/state.js";
import { byteCount, count, duration, ordinal, plural } from "../core/words.js";

/** @param {import("../core/app.js").App} app @param {any} item @returns {[string, string][]} */
export function cardFacts(app, item) {
  if (item.is === "ghost") return item.lines.map((/** @type {string} */ line) => ["was", line]);
  if (item.is === "inside") return app.tree.insides.facts(item.op);
  if (item.region >= 0) return ofNode(app, { node: item.region, use: 0 });
  return item.items || item.is === "group" ? ofGroup(app, item.group) : ofNode(app, item);
}

/** @param {import("../core/app.js").App} app @param {number} group @returns {[string, string][]} */
function ofGroup(app, group) {
  const { tree, model } = app;
  /** @type {[string, string][]} */
  const facts = [[model.isForward ? "calls" : "nodes", count(tree.nodeCount[group])]];
  if (tree.leafCount[group]) facts.push([model.isForward ? "data" : "leaves", count(tree.leafCount[group])]);
  if (tree.ns[group] > 0) facts.push([model.isForward ? "took" : "ran", duration(tree.ns[group])]);
  if (tree.savedBytes[group] > 0) facts.push(["saves", byteCount(tree.savedBytes[group])]);
  if (model.engineSeen) {
    const counts = app.states.counts(app.tree.nodesUnder(group));
    facts.push(["now", counts.map((each, state) => (each ? `${GLYPHS[state]} ${count(each)} ${WORDS[state]}` : "")).filter(Boolean).join(", ")]);
  }
  return facts;
}

/** @param {import("../core/app.js").App} app @param {any} box @returns {[string, string][]} */
function ofNode(app, { node, use }) {
  const { model } = app;
  /** @type {[string, string][]} */
  const facts = [];
  const add = (/** @type {string} */ name, /** @type {string} */ value) => { if (value) facts.push([name, value]); };
  add("kind", model.facts.kinds[model.nodes.get("kind")[node]]);
  add("shape", model.nodes.text("shape", node));
  const run = app.runOf(node);
  const took = app.nsOf(node);
  const position = run >= 0 ? model.runs.get("position")[run] : 0;
  if (took > 0) add(model.isForward ? "took" : "ran", duration(took) + (position > 0 ? `, ${ordinal(position)}` : ""));
  const rows = [...model.savedOf.of(node)];
  if (rows.length) add("saves", `${byteCount(rows.reduce((sum, row) => sum + model.tables.saved.get("bytes")[row], 0))} in ${plural(rows.length, "tensor")}`);
  const frame = model.frameOf(node);
  if (frame >= 0) add("line", `${model.shortPlace(frame)} ${model.tables.frames.text("text", frame).trim()}`);
  add("module", model.nodes.text("module", node));
  if (model.engineSeen && app.states.has(node)) add("now", `${GLYPHS[app.states.of[node]]} ${WORDS[app.states.of[node]]}`);
  if (use > 1) add("use", `${ordinal(use)} of this leaf`);
  return facts;
}
