/** Paints arrows, the stubs of those that are cut, and shapes on them. */

import { FONTS } from "../core/picture.js";
import { STUB_HEIGHT } from "../layout/columns.js";

/** @typedef {{context: CanvasRenderingContext2D, app: import("../core/app.js").App, colours: any, k: number, lit: string}} Painted the painter of the picture */

const CORNER = 6;
export const LEAST = 6;
/** The dashes of what a compiler reported, and nobody observed. */
export const INFERRED = [2, 2];

/** All arrows, those of the hovered or selected box over the others. @param {Painted} painter */
export function paintArrows(painter) {
  const { routes } = painter.app.picture;
  for (const route of routes) if (!isLit(painter, route)) paintArrow(painter, route);
  for (const route of routes) if (isLit(painter, route)) paintArrow(painter, route);
}

/** @param {Painted} painter @param {import("../core/layout.js").Route} route */
function isLit(painter, route) {
  return painter.lit !== "" && (route.tail === painter.lit || route.head === painter.lit);
}

/** Those between columns are fainter, unless they are lit. @param {Painted} painter @param {import("../core/layout.js").Route} route */
function paintArrow(painter, route) {
  const { context, colours, app } = painter;
  const lit = isLit(painter, route);
  const critical = app.critical && app.picture && app.criticalKeys?.has(`${route.tail}>${route.head}`);
  const faint = painter.lit && !lit && !critical;
  context.strokeStyle = lit || critical ? colours.accent : colours.arrow;
  context.fillStyle = context.strokeStyle;
  context.globalAlpha = faint ? 0.5 : 1;
  context.lineWidth = lit || critical ? Math.max(2, 1.6 / painter.k) : Math.max(1.1, 0.7 / painter.k) * (route.turns ? 0.8 : 1);
  const edge = app.picture.edges[route.link];
  if (edge.ghost || edge.type !== undefined) context.setLineDash(edge.ghost ? [6, 4] : INFERRED);
  paintCurve(painter.context, route.points);
  context.setLineDash([]);
  if (route.ends) paintTip(painter, route.points[route.points.length - 1]);
  if (lit && !(route.begins && route.ends)) paintWhole(painter, route);
  context.globalAlpha = 1;
}

/** @param {CanvasRenderingContext2D} context @param {[number, number][]} points */
function paintCurve(context, points) {
  context.beginPath();
  context.moveTo(points[0][0], points[0][1]);
  for (let at = 1; at < points.length; at += 1) {
    const [x0, y0] = points[at - 1];
    const [x1, y1] = points[at];
    const after = points[at + 1];
    if (after && (x0 === x1 && y1 === after[1] || y0 === y1 && x1 === after[0])) context.arcTo(x1, y1, after[0], after[1], Math.min(CORNER, ...[points[at - 1], after].map(([x, y]) => Math.hypot(x - x1, y - y1) / 2)));
    else if (Math.abs(x0 - x1) < 0.5 || y0 === y1) context.lineTo(x1, y1);
    else context.bezierCurveTo(x0, (y0 + y1) / 2, x1, (y0 + y1) / 2, x1, y1);
  }
  context.stroke();
}

/** @param {Painted} painter @param {[number, number]} point */
function paintTip(painter, [x, y]) {
  const { context } = painter;
  const size = Math.max(5, 3 / painter.k);
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(x - size * 0.7, y - size * 1.5);
  context.lineTo(x + size * 0.7, y - size * 1.5);
  context.fill();
}

/** An arrow that is cut, from box to box: where it is lit. @param {Painted} painter @param {import("../core/layout.js").Route} route */
function paintWhole(painter, route) {
  const { boxes } = painter.app.picture;
  const [tail, head] = [boxes.get(route.tail), boxes.get(route.head)];
  painter.context.setLineDash([5, 4]);
  paintCurve(painter.context, [[tail.x + tail.w / 2, tail.y + tail.h], [head.x + head.w / 2, head.y]]);
  painter.context.setLineDash([]);
}

/** The names at the ends of arrows that are cut. @param {Painted} painter */
export function paintStubs(painter) {
  const { context, colours, app } = painter;
  if (painter.k * 13 < LEAST) return;
  context.font = FONTS.stub;
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillStyle = colours.soft;
  for (const { x, y, text } of app.picture.stubs) context.fillText(text, x + 2, y + STUB_HEIGHT / 2);
}

/** The shapes of gradients or tensors in the middle of their arrows. @param {Painted} painter */
export function paintShapes(painter) {
  const { context, colours, app } = painter;
  if (painter.k * 10 < LEAST) return;
  const { model, picture } = app;
  context.font = FONTS.line;
  context.textBaseline = "middle";
  context.textAlign = "center";
  for (const route of picture.routes) {
    if (!route.begins || !route.ends) continue;
    const { edges, type } = picture.edges[route.link];
    const shape = type || edges.map((/** @type {number} */ edge) => model.edges.text("shape", edge) || model.nodes.text("shape", model.edges.get("head")[edge])).find(Boolean);
    if (!shape) continue;
    const text = edges.length > 1 ? `${shape} …×${edges.length}` : shape;
    const [x, y] = middleOf(route.points);
    const width = context.measureText(text).width + 6;
    context.fillStyle = colours.page;
    context.fillRect(x - width / 2, y - 7, width, 14);
    context.fillStyle = colours.soft;
    context.fillText(text, x, y);
  }
}

/** The middle of the longest part of a line. @param {[number, number][]} points @returns {[number, number]} */
function middleOf(points) {
  let best = 1;
  const length = (/** @type {number} */ at) => Math.hypot(points[at][0] - points[at - 1][0], points[at][1] - points[at - 1][1]);
  for (let at = 2; at < points.length; at += 1) if (length(at) > length(best)) best = at;
  return [(points[best][0] + points[best - 1][0]) / 2, (points[best][1] + points[best - 1][1]) / 2];
}
