/** Colors by structure: groups with the same nodes and edges inside look the same. The twin of scene/graph/blocks/structures.py. */

/** @typedef {import("./app.js").App} App */

/** How many structures have a color of their own; equal to the number of STRUCTURE_KINDS in theme.py. */
export const STRUCTURE_COLORS = 8;
const LETTERS = 26;

/** The structure of the innermost group around a group that has one, itself included; -1 for none. @param {App} app @param {number} group */
export function structureAround(app, group) {
  const of = app.model.groups.get("structure");
  for (let each = group; each >= 0; each = app.tree.parent[each]) if (of[each] >= 0) return of[each];
  return -1;
}

/** A to Z, then A2 to Z2, and so on. @param {number} number */
export function letterOf(number) {
  const turn = Math.floor(number / LETTERS);
  return String.fromCharCode(65 + number % LETTERS) + (turn ? turn + 1 : "");
}

/** What stands on a folded box, or beside the title of a frame, in place of a color. @param {App} app @param {number} group */
export function structureSign(app, group) {
  const number = app.model.groups.get("structure")[group];
  return app.coloring === "structure" && number >= 0 ? letterOf(number) : "";
}

/** The structures in the picture, with the type of their modules and how many there are in what is shown. @param {App} app @returns {{number: number, words: string}[]} */
export function structuresShown(app) {
  const { model, picture, root, tree } = app;
  const of = model.groups.get("structure");
  const groups = [...picture.all.map((/** @type {any} */ box) => box.group), ...picture.frames.map((/** @type {any} */ frame) => frame.group)];
  const shown = new Set(groups.map((group) => structureAround(app, group)).filter((number) => number >= 0));
  const found = new Map();
  for (let group = root; group < root + tree.extent(root); group += 1) {
    const number = of[group];
    if (!shown.has(number)) continue;
    if (!found.has(number)) found.set(number, { number, type: model.groups.text("alike", group), many: 0 });
    found.get(number).many += 1;
  }
  return [...found.values()].sort((one, other) => one.number - other.number)
    .map(({ number, type, many }) => ({ number, words: `${letterOf(number)} · ${type} ×${many.toLocaleString("en-US")}` }));
}
