/** The same node in other steps: that of the same name and module, at the same place among these. */

/** @typedef {import("./app.js").App} App */

/** The nodes of a step with the name and the module of a node. @param {App} app @param {number} node @param {number} step its group @returns {number[]} */
function alikeIn(app, node, step) {
  const { name, module } = app.model.nodes.columns;
  return [...app.tree.nodesUnder(step)].filter((each) => name[each] === name[node] && module[each] === module[node]).sort((one, other) => one - other);
}

/** That of another step; -1 for none. @param {App} app @param {number} node @param {number} step the group of the other step */
export function sameInStep(app, node, step) {
  const { tree } = app;
  return alikeIn(app, node, step)[alikeIn(app, node, tree.stepOf[tree.of[node]]).indexOf(node)] ?? -1;
}

/** Those of all other steps of the rank. @param {App} app @param {number} node @returns {number[]} */
export function sameInOtherSteps(app, node) {
  const { tree, model } = app;
  const own = tree.stepOf[tree.of[node]];
  if (!own || model.isLeaf(node)) return [];
  const rank = model.groups.get("rank");
  const place = alikeIn(app, node, own).indexOf(node);
  return [...tree.steps.values()].filter((step) => step !== own && rank[step] === rank[own])
    .map((step) => alikeIn(app, node, step)[place] ?? -1).filter((twin) => twin >= 0);
}
