/** Colours by time: how long boxes ran, or how much longer than before. */

/** @typedef {import("./app.js").App} App */

export const SHADES = 5;

/** @param {App} app @param {any} box @returns {number} ns; -1 where there is nothing to compare it with */
export function heatOf(app, box) {
  const { changed, tree } = app;
  if (app.coloring === "slower" && changed) return changed.wasThere(box) ? Math.max(0, changed.moreOf(box)) : -1;
  return box.is === "group" ? tree.ns[box.group] : tree.nodeNs[box.node];
}

/** The most of what is drawn. @param {App} app */
export function hottest(app) {
  return app.picture.all.reduce((/** @type {number} */ most, /** @type {any} */ box) => (box.is === "leaf" || box.is === "ghost" || box.is === "inside" ? most : Math.max(most, heatOf(app, box))), 1);
}

/** @param {number} heat @param {number} most @returns {number} which shade it has: they differ most where little is */
export function shadeOf(heat, most) {
  return Math.min(Math.floor(Math.sqrt(heat / most) * SHADES), SHADES - 1);
}

/** Up to how many ns each shade goes. @param {number} most */
export function limits(most) {
  return Array.from({ length: SHADES }, (_, shade) => most * ((shade + 1) / SHADES) ** 2);
}
