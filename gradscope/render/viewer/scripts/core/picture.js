/** The contents of the graph panel: boxes with texts and sizes, frames, and arrows. */

import { ALL, LOOP } from "./tree.js";
import { insideKey } from "./insides.js";
import { layOut } from "./layout.js";
import { count, duration, ordinal, plural, shorten } from "./words.js";

/** @typedef {import("./data.js").Model} Model @typedef {import("./tree.js").Tree} Tree */

/** What pictures are fitted to at first, whatever a window has: an address opens the same everywhere. */
const ROOM = [920, 680];
const LIMITS = [90, 64, 45, 32, 22, 14, 8];
const LEGIBLE = 0.55;
const WIDEST = 260;
const TITLE_FONT = "600 13px system-ui, sans-serif";
const LINE_FONT = "11px system-ui, sans-serif";
export const FONTS = { title: TITLE_FONT, line: LINE_FONT, frame: "600 12px system-ui, sans-serif", stub: "13px system-ui, sans-serif" };
const LONGEST_STUB = 150;
const LINE = 15;
const TOP = 22;

/**
 * @typedef {object} Box
 * @property {string} key
 * @property {"node" | "leaf" | "group" | "ghost" | "inside"} is
 * @property {number} node -1 for a group; the compiled one that an operation is inside of
 * @property {number} group the group itself, or the one that the node is shown in
 * @property {string} title
 * @property {string} ordinal
 * @property {string[]} lines
 * @property {number} use which use of a leaf; 0 where there is only one
 */

/** Measures text as the canvas writes it. */
class Ruler {
  constructor() {
    this.context = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
    this.known = new Map();
  }

  /** @param {string} text @param {string} font */
  width(text, font) {
    const key = font + text;
    if (!this.known.has(key)) {
      this.context.font = font;
      this.known.set(key, this.context.measureText(text).width);
    }
    return this.known.get(key);
  }
}

const ruler = new Ruler();

/** The text of a stub, shortened at its end. @param {string} text */
function stubText(text) {
  let kept = text;
  while (kept.length > 1 && ruler.width(kept, FONTS.stub) > LONGEST_STUB) kept = `${kept.slice(0, -2)}…`;
  return { text: kept, width: ruler.width(kept, FONTS.stub) };
}

/** One picture: a root group, with some groups open, and some compiled regions. */
export class Picture {
  /** @param {Model} model @param {Tree} tree @param {number} root @param {Set<number>} open groups, and ~node for the inside of a node @param {import("../comparing/ghosts.js").Ghosts | null} [ghosts] nodes of an earlier trace to draw as well */
  constructor(model, tree, root, open, ghosts = null) {
    this.model = model;
    this.ghosts = ghosts;
    this.tree = tree;
    this.root = root;
    this.open = open;
    this.insides = tree.insides;
    this.boxOf = tree.boxes(root, open);
    /** @type {Map<string, any>} */
    this.boxes = new Map();
    this.hidden = new Map();
    this.frames = [];
    /** @type {Map<number, any>} by group, its item */
    this.itemOf = new Map();
    /** @type {Map<number, number>} by group, the line that made all of it */
    this.lines = new Map();
    this.item = this.groupItem(root);
    this.edges = this.connect();
    this.finish();
    const { routes, stubs } = layOut(this.item, this.edges, ROOM, stubText);
    this.routes = routes;
    this.stubs = stubs;
    this.findEntries();
    this.width = this.item.w;
    this.height = this.item.h;
    this.all = [...this.boxes.values()];
  }

  /** How far from the left the first route enters each frame: what stands beside its title ends there. */
  findEntries() {
    const lines = this.routes.flatMap(({ points }) => points.slice(1).map(([x, y], at) => [Math.min(x, points[at][0]), points[at][1], y]));
    for (const frame of this.frames) {
      frame.entry = Infinity;
      for (const [x, from, to] of lines) if (from <= frame.y && to > frame.y && x > frame.x && x < frame.x + frame.w) frame.entry = Math.min(frame.entry, x - frame.x);
    }
  }

  groupItem(group) {
    const { tree } = this;
    const items = [];
    for (const each of tree.groupsIn[group]) {
      items.push(this.open.has(each) ? this.groupItem(each) : this.box({ key: `g${each}`, is: "group", node: -1, group: each, use: 0 }));
    }
    for (const node of tree.nodesIn[group]) {
      if (!this.model.isLeaf(node)) items.push(this.nodeItem(node, group));
    }
    for (const each of this.ghosts?.in(group, this.root) ?? []) items.push(this.box({ key: `x${each.row}`, is: "ghost", node: -1, group, use: 0, ghost: each.row, after: each.node }));
    const title = shorten(tree.title(group), 60);
    const item = {
      key: group === this.root ? "root" : `f${group}`, group, region: -1, items, title, more: this.besideTitle(group), w: 0, h: 0,
      order: this.orderOf(group, -1), titleWidth: ruler.width(title, FONTS.frame) + 20,
    };
    if (group !== this.root) this.frames.push(item);
    this.itemOf.set(group, item);
    return item;
  }

  /** The box of a node, or a frame around it and the operations inside of it. */
  nodeItem(node, group) {
    const { insides } = this;
    const box = this.box({ key: `n${node}`, is: "node", node, group, use: 0 });
    if (!this.open.has(~node) || !insides.has(node)) return box;
    const ops = [...insides.of(node)].map((op, at, all) => {
      const inside = this.box({ key: insideKey(node, op), is: "inside", node, group, op, use: 0 });
      inside.order = box.order - (at + 1) / (all.length + 1) / 4;
      return inside;
    });
    const title = insides.title(node);
    const line = insides.oneLine(node);
    const item = { key: `i${node}`, group, region: node, items: [box, ...ops], title, more: line && ` · ${line}`, w: 0, h: 0, order: box.order, titleWidth: ruler.width(title, FONTS.frame) + 20 };
    this.frames.push(item);
    return item;
  }

  /** What stands beside the title of a frame where there is room: how long it ran, the line that made all of it. */
  besideTitle(group) {
    const { tree } = this;
    const ran = tree.ns[group] > 0 ? ` · ${duration(tree.ns[group])}` : "";
    const line = this.oneLine(group);
    return ran + (line >= 0 && group !== this.root ? ` · ${this.model.shortPlace(line)}` : "");
  }

  /** The line that made all nodes of a group, so that they need not say it; -1 where there are several. @param {number} group */
  oneLine(group) {
    if (!this.lines.has(group)) {
      const found = new Set(this.tree.nodesIn[group].filter((node) => !this.model.isLeaf(node)).map((node) => this.model.frameOf(node)));
      this.lines.set(group, found.size === 1 ? [...found][0] : -1);
    }
    return this.lines.get(group);
  }

  /** What is larger stands above: in a backward what was made later, in a forward graph what was computed earlier. @param {number} group @param {number} node */
  orderOf(group, node) {
    if (this.model.isForward) return node >= 0 ? -node : -this.tree.first[group];
    return node >= 0 ? node : this.tree.last[group];
  }

  box(box) {
    box.order = box.is === "ghost" ? this.orderOf(box.group, box.after) - 0.25 : this.orderOf(box.group, box.node);
    this.boxes.set(box.key, box);
    return box;
  }

  /** Arrows between boxes; leaves stand beside each box that uses them. */
  connect() {
    const { model, boxOf } = this;
    const tail = model.edges.get("tail");
    const head = model.edges.get("head");
    const found = new Map();
    const uses = new Map();
    for (let edge = 0; edge < tail.length; edge += 1) {
      const from = boxOf[tail[edge]];
      const leaf = model.isLeaf(head[edge]);
      if (from === -1) {
        if (!leaf && boxOf[head[edge]] !== -1) this.hide(keyOf(boxOf[head[edge]]));
        continue;
      }
      let to = boxOf[head[edge]];
      let key = "";
      if (leaf) {
        const users = uses.get(head[edge]) ?? new Set();
        uses.set(head[edge], users.add(tail[edge]));
        if (from < 0) continue;
        key = `l${head[edge]}u${tail[edge]}`;
        if (!this.boxes.has(key)) {
          const group = model.nodes.get("group")[tail[edge]];
          const made = this.box({ key, is: "leaf", node: head[edge], group, use: users.size, user: tail[edge] });
          made.order = this.orderOf(group, tail[edge]) + (model.isForward ? 0.5 : -0.5);
          this.itemOf.get(group).items.push(made);
        }
      } else if (to === -1) {
        this.hide(keyOf(from));
        continue;
      } else if (to === from) continue;
      else key = keyOf(to);
      const name = `${keyOf(from)}>${key}`;
      if (!found.has(name)) found.set(name, { tail: keyOf(from), head: key, edges: [] });
      found.get(name).edges.push(edge);
    }
    /** @type {Map<number, Set<number>>} by leaf: who uses it, also where that is folded */
    this.uses = uses;
    for (const { tail: from, head: to } of this.ghosts?.links(this) ?? []) if (!found.has(`${from}>${to}`)) found.set(`${from}>${to}`, { tail: from, head: to, edges: [], ghost: true });
    const all = [...found.values()];
    const inside = this.frames.flatMap(({ region }) => (region < 0 ? [] : this.insides.links(region)));
    return [...model.isForward ? all.map((each) => ({ ...each, tail: each.head, head: each.tail })) : all, ...inside];
  }

  hide(key) {
    this.hidden.set(key, (this.hidden.get(key) ?? 0) + 1);
  }

  finish() {
    for (const box of this.boxes.values()) {
      if (box.is === "ghost") this.ghosts?.describe(box);
      else if (box.is === "inside") this.insides.describe(box);
      else if (box.is === "group") this.describeGroup(box);
      else this.describeNode(box);
      box.lane = box.is === "ghost" || box.is === "inside" ? -1 : this.laneOf(box);
      if (box.lane >= 0) box.lines.push(this.model.lanes[box.lane]);
      const cut = this.hidden.get(box.key);
      if (cut) box.lines.push(`⋯ ${plural(cut, "edge")} to nodes not shown`);
      const widths = box.lines.map((/** @type {string} */ line) => ruler.width(line, FONTS.line));
      const title = ruler.width(box.title, FONTS.title) + (box.ordinal ? ruler.width(box.ordinal, FONTS.line) + 5 : 0) + box.badges * 15;
      box.titleWidth = ruler.width(box.title, FONTS.title) + 14;
      box.w = Math.min(Math.max(60, title, ...widths), WIDEST) + 20;
      box.h = TOP + box.lines.length * LINE + 10;
    }
  }

  /** The thread or device that a box ran on, where there are several. */
  laneOf(box) {
    const { model, tree } = this;
    if (!model.lanes.length) return -1;
    return model.laneOf(box.is === "group" ? tree.nodesUnder(box.group) : [box.node]);
  }

  describeGroup(box) {
    const { tree } = this;
    const { group } = box;
    box.title = shorten(tree.title(group), 44);
    box.ordinal = "";
    box.badges = this.model.groups.get("structure")[group] < 0 ? 1 : 2;
    const each = tree.nodeCount[group] / this.model.groups.get("turns")[group];
    const { isForward } = this.model;
    const inside = plural(tree.nodeCount[group], isForward ? "call" : "node") + (Number.isInteger(each) ? `, ${each} each` : "");
    const leaves = tree.leafCount[group];
    box.lines = [leaves ? `${inside}, ${isForward ? `${count(leaves)} given` : plural(leaves, "leaf", "leaves")}` : inside];
    if (tree.ns[group] > 0) box.lines.push(`${isForward ? "took" : "ran"} ${duration(tree.ns[group])}`);
    if (tree.form[group] === LOOP && tree.ns[group] > 0) {
      const slowest = tree.slowestTurn(group);
      if (slowest) box.lines.push(`slowest: ${shorten(slowest.title, 24)}, ${duration(slowest.ns)}`);
    }
  }

  describeNode(box) {
    const { model } = this;
    const { node } = box;
    const leaf = box.is === "leaf";
    box.title = shorten(leaf ? model.nodes.text("leaf", node) : model.nodes.text("name", node), 34);
    const place = model.nodes.get("ordinal")[node];
    box.ordinal = leaf || !place ? "" : `#${place}`;
    box.badges = model.marksOf(node).length + Number(this.isFolded(box));
    box.lines = [];
    const shape = model.nodes.text("shape", node);
    if (shape) box.lines.push(shorten(shape, 34));
    const uses = leaf ? this.uses.get(node).size : 0;
    if (uses > 1) box.lines.push(`use ${count(box.use)} of ${count(uses)}`);
    if (leaf && model.isForward) return;
    const frame = model.frameOf(node);
    if (!leaf && frame >= 0 && (box.group === this.root || this.oneLine(box.group) !== frame)) box.lines.push(shorten(model.shortPlace(frame), 34));
    if (model.isForward) {
      this.describeCall(box);
      return;
    }
    const runs = this.runsHere(node);
    if (runs.length === 1) {
      const ns = model.runs.get("self_ns")[runs[0]];
      const position = model.runs.get("position")[runs[0]];
      if (position > 0) box.lines.push(`ran ${ordinal(position)}, ${duration(ns)}`);
    } else if (runs.length) box.lines.push(`ran ${runs.length} times, ${duration(runs.reduce((sum, run) => sum + Math.max(model.runs.get("self_ns")[run], 0), 0))}`);
  }

  /** Whether a box can be opened. */
  isFolded(box) {
    return box.is === "group" || box.is === "node" && this.insides.has(box.node) && !this.open.has(~box.node);
  }

  /** The runs of a node in the step that is shown; a leaf runs in others, too. @param {number} node @returns {number[]} */
  runsHere(node) {
    const { model, tree, root } = this;
    const runs = [...model.runsOf.of(node)];
    return tree.stepOf[root] ? runs.filter((run) => tree.stepOfBackward(model.runs.get("backward")[run]) === tree.stepOf[root]) : runs;
  }

  describeCall(box) {
    const { nodes } = this.model;
    const took = this.tree.nodeNs[box.node];
    if (took > 0) box.lines.push(`took ${duration(took)}`);
    const made = nodes.get("made")[box.node];
    if (nodes.text("writes", box.node)) box.lines.push(shorten(`wrote ${nodes.text("writes", box.node)}`, 40));
    if (made < 0 && this.model.someMade && nodes.text("why", box.node)) box.lines.push(nodes.text("why", box.node));
  }

  /** The box that stands for a node: its own, or that of the group it is folded into. @param {number} node */
  boxFor(node) {
    if (node < 0) return null;
    if (this.model.isLeaf(node)) return this.all.find((box) => box.node === node) ?? this.boxes.get(keyOf(this.boxOf[node])) ?? null;
    return this.boxes.get(keyOf(this.boxOf[node])) ?? null;
  }

  /** @param {number} part a group, or ~node for the inside of a node @returns {any} its box, or its frame where it is open */
  boxOrFrame(part) {
    if (part < 0) return this.frames.find((frame) => frame.region === ~part) ?? this.boxes.get(`n${~part}`) ?? null;
    return this.boxes.get(`g${part}`) ?? this.frames.find((frame) => frame.region < 0 && frame.group === part) ?? null;
  }
}

/** @param {number} box */
export function keyOf(box) {
  return box <= -2 ? `g${-2 - box}` : `n${box}`;
}


/** The groups to open at first: as many as leave titles legible. @param {Tree} tree @param {number} root @returns {Set<number>} */
export function legibleGroups(tree, root) {
  let open = new Set([root]);
  for (const limit of LIMITS) {
    open = tree.openBestFirst(root, limit, new Set());
    if (isLegible(tree, root, open)) break;
  }
  return open;
}

/** The same with the insides of all nodes that have a box; without them, if titles were not legible. @param {Tree} tree @param {number} root @param {Set<number>} open */
export function withInsides(tree, root, open) {
  const { insides } = tree;
  const nodes = [...tree.boxes(root, open).entries()].filter(([node, box]) => node === box && insides.has(node)).map(([node]) => node);
  const boxes = nodes.reduce((sum, node) => sum + insides.of(node).length, 0);
  const more = new Set([...open, ...nodes.map((node) => ~node)]);
  return nodes.length && boxes <= LIMITS[0] && isLegible(tree, root, more) ? more : open;
}

/** @param {Tree} tree @param {number} root @param {Set<number>} open */
function isLegible(tree, root, open) {
  const { width, height } = new Picture(tree.model, tree, root, open);
  return Math.min(ROOM[0] / width, ROOM[1] / height) >= LEGIBLE;
}
