/**
 * Nested and layered: each group is laid out by itself and is one box of the group around it.
 *
 * Inside a group: depth by the longest path, sources just above what they lead to, sweeps by barycentre, rows as
 * high as their tallest box. What enters or leaves a group goes through a lane that is kept free up or down to its
 * frame. A group much taller than wide is wrapped into columns; an arrow between columns, or over more than LONGEST
 * rows, becomes two stubs.
 */

/**
 * @typedef {object} Item a box, or a group with items of its own
 * @property {string} key
 * @property {number} w
 * @property {number} h
 * @property {number} order larger: made later, so nearer to where the backward starts
 * @property {Item[]} [items] of a group
 * @property {number} [titleWidth] of a group
 * @property {number} [x] after layout, of its left upper corner
 * @property {number} [y]
 * @property {number} [below] how much of its row is below it
 * @property {Lane[]} [enters] lanes from the frame's upper edge, by what they lead to
 * @property {Lane[]} [leaves]
 * @typedef {{item: Item, points: number[][]}} Lane points from the item outwards
 * @typedef {{tail: string, head: string}} Edge
 * @typedef {{tail: string, head: string, points: number[][], stub: boolean}} Route of a stub: both of its ends
 */

export const LONGEST = 12;
const GAP = 18;
const ROW_GAP = 28;
const LANE = 10;
const PADDING = 16;
export const TITLE = 26;
const COLUMN_GAP = 56;
const BEND = 12;
const SWEEPS = 8;
/** So tall may columns be, in shares of the side of a square of the same area as all boxes together. */
const SHARES = [0.9, 1.2, 1.6, 2.2, 3];
const MANY = 150;
const SHORTEST = 420;

/**
 * Lay out a group and everything in it. Positions of all items become those in the whole picture.
 * @param {Item} root @param {Edge[]} edges between boxes, by their keys
 * @param {number[]} room width and height of what it is to be seen in: columns end where it fits best
 * @returns {Route[]}
 */
export function layOut(root, edges, room) {
  const around = new Map();
  collect(root, null, around);
  const parts = projected(root, edges, around);
  const boxes = [...around.values()].filter(({ item }) => !item.items);
  const side = Math.sqrt(boxes.reduce((sum, { item }) => sum + (item.w + GAP) * (item.h + ROW_GAP), 0) * 1.6 * room[1] / room[0]);
  const shares = boxes.length > MANY ? SHARES.slice(1, 3) : SHARES;
  let best = { scale: -1, tallest: 0 };
  for (const share of shares) {
    const tallest = Math.max(side * share, SHORTEST);
    layGroup(root, parts, new Map(), tallest, true);
    const scale = Math.min(room[0] / root.w, room[1] / root.h);
    if (scale > best.scale * 1.02) best = { scale, tallest };
  }
  const routes = new Map();
  layGroup(root, parts, routes, best.tallest, true);
  place(root, 0, 0);
  return edges.map((edge) => routeOf(edge, around, routes)).filter((each) => each.points.length);
}

/** @param {Item} item @param {Item | null} up @param {Map<string, {item: Item, chain: Item[]}>} around */
function collect(item, up, around) {
  const chain = up ? [...around.get(up.key).chain, item] : [item];
  around.set(item.key, { item, chain });
  for (const each of item.items ?? []) collect(each, item, around);
}

/**
 * The edges of each group: between its items, in from above, and out below.
 * @returns {Map<string, {inner: Map<string, [Item, Item]>, enters: Set<Item>, leaves: Set<Item>}>}
 */
function projected(root, edges, around) {
  const found = new Map();
  const of = (/** @type {Item} */ group) => {
    if (!found.has(group.key)) found.set(group.key, { inner: new Map(), enters: new Set(), leaves: new Set() });
    return found.get(group.key);
  };
  for (const each of around.values()) if (each.item.items) of(each.item);
  for (const edge of edges) {
    const tail = around.get(edge.tail).chain;
    const head = around.get(edge.head).chain;
    let same = 0;
    while (same < tail.length && same < head.length && tail[same] === head[same]) same += 1;
    if (same === tail.length || same === head.length) continue;
    of(tail[same - 1]).inner.set(`${tail[same].key}>${head[same].key}`, [tail[same], head[same]]);
    for (let at = same; at < tail.length - 1; at += 1) of(tail[at]).leaves.add(tail[at + 1]);
    for (let at = same; at < head.length - 1; at += 1) of(head[at]).enters.add(head[at + 1]);
  }
  return found;
}

/** Give the items of a group positions within it, and the group its size. */
function layGroup(group, edgesOf, routes, tallest, isRoot) {
  const within = tallest - TITLE - 2 * PADDING;
  for (const item of group.items) if (item.items) layGroup(item, edgesOf, routes, Math.max(within, SHORTEST / 2), false);
  const { inner, enters, leaves } = edgesOf.get(group.key);
  const pairs = [...inner.values()];
  const ranks = rankOf(group.items, pairs, enters);
  const columns = columnsOf(group.items, ranks, tallest);
  const columnOf = new Map();
  columns.forEach(([first, last], column) => {
    for (const item of group.items) if (ranks.get(item) >= first && ranks.get(item) < last) columnOf.set(item, column);
  });
  group.enters = [];
  group.leaves = [];
  let x = isRoot ? 0 : PADDING;
  const top = isRoot ? BEND : TITLE + PADDING;
  let height = 0;
  const starts = /** @type {number[]} */ ([]);
  const heights = /** @type {number[]} */ ([]);
  columns.forEach(([first, last], column) => {
    const mine = group.items.filter((/** @type {Item} */ item) => columnOf.get(item) === column);
    const laid = layColumn(mine, pairs, { ranks, first, last, columnOf, column, enters, leaves });
    for (const cell of laid.cells) shift(cell, x - laid.left, top);
    keepLanes(group, laid, pairs, routes);
    starts.push(x);
    heights.push(laid.height);
    x += laid.right - laid.left + COLUMN_GAP;
    height = Math.max(height, laid.height);
  });
  for (const [tail, head] of pairs) {
    const apart = columnOf.get(tail) !== columnOf.get(head);
    if (!apart && ranks.get(head) - ranks.get(tail) <= LONGEST) continue;
    const column = columnOf.get(tail);
    const turns = columnOf.get(head) === column + 1 && ranks.get(head) === columns[column + 1][0] && ranks.get(tail) === columns[column][1] - 1;
    const between = turns ? starts[column + 1] - COLUMN_GAP / 2 : 0;
    routes.set(`${tail.key}>${head.key}`, turns ? { between, top: top - BEND, bottom: top + heights[column] + BEND } : null);
  }
  group.w = Math.max(x - COLUMN_GAP + (isRoot ? 0 : PADDING), group.titleWidth ?? 0);
  group.h = top + height + (isRoot ? BEND : PADDING);
}

/** The row of each item: the longest path to it. */
function rankOf(items, pairs, enters) {
  const into = new Map(items.map((/** @type {Item} */ item) => [item, 0]));
  const next = new Map(items.map((/** @type {Item} */ item) => [item, /** @type {Item[]} */ ([])]));
  const forward = pairs.filter(([tail, head]) => tail.order > head.order);
  for (const [tail, head] of forward) {
    into.set(head, into.get(head) + 1);
    next.get(tail).push(head);
  }
  const ranks = new Map(items.map((/** @type {Item} */ item) => [item, 0]));
  const ordered = [...items].sort((one, other) => other.order - one.order);
  for (const tail of ordered) {
    for (const head of next.get(tail)) ranks.set(head, Math.max(ranks.get(head), ranks.get(tail) + 1));
  }
  for (const item of ordered.reverse()) {
    if (into.get(item) || enters.has(item) || !next.get(item).length) continue;
    ranks.set(item, Math.min(...next.get(item).map((/** @type {Item} */ head) => ranks.get(head))) - 1);
  }
  return ranks;
}

/** Which rows stand in which column: one, or several, as equal as can be, where one would be too tall. @returns {[number, number][]} */
function columnsOf(items, ranks, tallest) {
  const rows = 1 + Math.max(-1, ...ranks.values());
  const heights = new Array(rows).fill(0);
  for (const item of items) heights[ranks.get(item)] = Math.max(heights[ranks.get(item)], item.h + ROW_GAP);
  const height = heights.reduce((sum, each) => sum + each, 0);
  const count = Math.min(Math.ceil(height / tallest), rows);
  const found = /** @type {[number, number][]} */ ([]);
  let first = 0;
  let sum = 0;
  for (let row = 0; row < rows; row += 1) {
    sum += heights[row];
    const next = heights[row + 1] ?? 0;
    if (row === rows - 1 || sum + next / 2 > height * (found.length + 1) / count) {
      found.push([first, row + 1]);
      first = row + 1;
    }
  }
  return found.length ? found : [[0, rows]];
}

/**
 * One column: its boxes, and the places where lanes pass through its rows.
 * @typedef {{item?: Item, lane?: string, w: number, h: number, row: number, x: number, y: number, up: Cell[], down: Cell[]}} Cell
 */
function layColumn(items, pairs, at) {
  const { ranks, first, last, columnOf, column } = at;
  const rows = /** @type {Cell[][]} */ (Array.from({ length: last - first }, () => []));
  const cellOf = new Map();
  for (const item of [...items].sort((one, other) => other.order - one.order)) {
    const cell = { item, w: item.w, h: item.h, row: ranks.get(item) - first, x: 0, y: 0, up: [], down: [] };
    cellOf.set(item, cell);
    rows[cell.row].push(cell);
  }
  const lanes = new Map();
  const chain = (/** @type {string} */ name, /** @type {Cell | null} */ from, /** @type {Cell | null} */ to, low, high) => {
    let before = from;
    const cells = [];
    for (let row = low; row < high; row += 1) {
      const cell = { lane: name, w: LANE, h: 0, row, x: 0, y: 0, up: /** @type {Cell[]} */ ([]), down: /** @type {Cell[]} */ ([]) };
      rows[row].push(cell);
      cells.push(cell);
      if (before) tie(before, cell);
      before = cell;
    }
    if (before && to) tie(before, to);
    lanes.set(name, cells);
  };
  for (const [tail, head] of pairs) {
    if (columnOf.get(tail) !== column || columnOf.get(head) !== column) continue;
    const [from, to] = [cellOf.get(tail), cellOf.get(head)];
    if (to.row <= from.row || to.row - from.row > LONGEST) continue;
    chain(`${tail.key}>${head.key}`, from, to, from.row + 1, to.row);
  }
  for (const item of items) {
    const cell = cellOf.get(item);
    if (at.enters.has(item)) chain(`>${item.key}`, null, cell, 0, cell.row);
    if (at.leaves.has(item)) chain(`${item.key}>`, cell, null, cell.row + 1, rows.length);
  }
  sweep(rows);
  const cells = rows.flat();
  let y = 0;
  const tops = [];
  for (const row of rows) {
    tops.push(y);
    const high = Math.max(0, ...row.map((cell) => cell.h));
    for (const cell of row) cell.y = y;
    y += high + ROW_GAP;
  }
  const heights = rows.map((row) => Math.max(0, ...row.map((cell) => cell.h)));
  for (const cell of cells) {
    if (cell.item) cell.item.below = heights[cell.row] - cell.h;
    else cell.h = heights[cell.row];
  }
  const left = Math.min(...cells.map((cell) => cell.x - cell.w / 2), 0);
  const right = Math.max(...cells.map((cell) => cell.x + cell.w / 2), left + 40);
  return { cells, lanes, left, right, height: Math.max(y - ROW_GAP, 0) };
}

/** @param {Cell} upper @param {Cell} lower */
function tie(upper, lower) {
  upper.down.push(lower);
  lower.up.push(upper);
}

/** Order each row, and give its cells places (of their middles), by those they are linked to. @param {Cell[][]} rows */
function sweep(rows) {
  for (const row of rows) spread(row, row.map(() => 0));
  for (let turn = 0; turn < SWEEPS; turn += 1) {
    const down = turn % 2 === 0;
    const ordered = down ? rows : [...rows].reverse();
    const sorts = turn < SWEEPS - 2;
    for (const row of ordered) {
      const wish = new Map(row.map((cell) => [cell, wished(cell, down)]));
      if (sorts) row.sort((one, other) => wish.get(one) - wish.get(other));
      spread(row, row.map((cell) => wish.get(cell)));
    }
  }
}

/** @param {Cell} cell @param {boolean} down */
function wished(cell, down) {
  const near = down ? cell.up : cell.down;
  const others = near.length ? near : [];
  if (!others.length) return cell.x;
  return others.reduce((sum, each) => sum + each.x, 0) / others.length;
}

/** Move cells apart, from both sides, as near to where they wish to be as their order lets them. @param {Cell[]} row @param {number[]} wish */
function spread(row, wish) {
  const gap = (/** @type {number} */ at) => (row[at - 1].w + row[at].w) / 2 + (row[at].item || row[at - 1].item ? GAP : LANE);
  const left = [...wish];
  for (let at = 1; at < row.length; at += 1) left[at] = Math.max(wish[at], left[at - 1] + gap(at));
  const right = [...wish];
  for (let at = row.length - 2; at >= 0; at -= 1) right[at] = Math.min(wish[at], right[at + 1] - gap(at + 1));
  row.forEach((cell, at) => { cell.x = (left[at] + right[at]) / 2; });
}

/** @param {Cell} cell @param {number} x @param {number} y */
function shift(cell, x, y) {
  cell.x += x;
  cell.y += y;
  if (cell.item) {
    cell.item.x = cell.x - cell.w / 2;
    cell.item.y = cell.y;
  }
}

/** Remember where lanes run, in the coordinates of the group. */
function keepLanes(group, laid, pairs, routes) {
  const points = (/** @type {Cell[]} */ cells) => cells.flatMap((cell) => [[cell.x, cell.y], [cell.x, cell.y + cell.h]]);
  const of = new Map(laid.cells.filter((/** @type {Cell} */ cell) => cell.item).map((/** @type {Cell} */ cell) => [cell.item.key, cell.item]));
  for (const [name, cells] of laid.lanes) {
    if (name.startsWith(">")) group.enters.push({ item: of.get(name.slice(1)), points: points(cells).reverse() });
    else if (name.endsWith(">")) group.leaves.push({ item: of.get(name.slice(0, -1)), points: points(cells) });
    else routes.set(name, points(cells));
  }
}

/** @param {Item} item @param {number} x @param {number} y of the group around it */
function place(item, x, y) {
  item.x = (item.x ?? 0) + x;
  item.y = (item.y ?? 0) + y;
  for (const each of item.items ?? []) place(each, item.x, item.y);
}

/** The points of an edge: out of the groups around its tail, and into those around its head. @returns {Route} */
function routeOf(edge, around, routes) {
  const tail = around.get(edge.tail).chain;
  const head = around.get(edge.head).chain;
  let same = 0;
  while (same < tail.length && same < head.length && tail[same] === head[same]) same += 1;
  if (same === tail.length || same === head.length) return { ...edge, points: [], stub: false };
  const out = outward(tail, same, "leaves", true);
  const into = outward(head, same, "enters", false).reverse();
  const group = tail[same - 1];
  const shared = routes.get(`${tail[same].key}>${head[same].key}`);
  if (!shared) return { ...edge, points: [out[out.length - 1], into[0]], stub: true, out, into };
  if (!Array.isArray(shared)) {
    const [[x0], [x1]] = [out[out.length - 1], into[0]];
    const [x, top, bottom] = [shared.between + group.x, shared.top + group.y, shared.bottom + group.y];
    return { ...edge, points: [...out, [x0, bottom], [x, bottom], [x, top], [x1, top], ...into], stub: false, turn: true };
  }
  const between = shared.map(([x, y]) => [x + group.x, y + group.y]);
  return { ...edge, points: [...out, ...between, ...into], stub: false };
}

/** From a box to the outside of the group below `same`: out of its row, and along the lanes of the groups between. */
function outward(chain, same, side, down) {
  const box = chain[chain.length - 1];
  const points = [[box.x + box.w / 2, down ? box.y + box.h : box.y]];
  const leave = (/** @type {Item} */ item) => {
    if (down && item.below) points.push([points[points.length - 1][0], item.y + item.h + item.below]);
  };
  leave(box);
  for (let at = chain.length - 2; at >= same; at -= 1) {
    const group = chain[at];
    const lane = group[side].find((/** @type {Lane} */ each) => each.item === chain[at + 1]);
    for (const [x, y] of lane?.points ?? []) points.push([x + group.x, y + group.y]);
    const last = points[points.length - 1];
    points.push([last[0], down ? group.y + group.h : group.y]);
    leave(group);
  }
  return points;
}
