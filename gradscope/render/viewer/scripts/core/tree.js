/** The groups, which of them are open, and the boxes of folded ones. */

import { Insides } from "./insides.js";

/** @typedef {import("./data.js").Model} Model */

export const ALL = 0;
export const STEP = 1;
export const BACKWARD = 2;
export const MODULE = 3;
export const LOOP = 4;
export const TURN = 5;
export const STRETCH = 6;
export const RANK = 7;

/** The groups of a trace, and what lies in each. */
export class Tree {
  /** @param {Model} model */
  constructor(model) {
    this.model = model;
    this.insides = new Insides(model);
    const { groups, nodes } = model;
    this.parent = groups.get("parent");
    this.form = groups.get("form");
    this.size = groups.length;
    /** @type {Map<number, Int32Array>} by group, the nodes in it */
    this.under = new Map();
    /** @type {number[][]} */
    this.groupsIn = Array.from({ length: this.size }, () => []);
    /** @type {number[][]} */
    this.nodesIn = Array.from({ length: this.size }, () => []);
    for (let group = 1; group < this.size; group += 1) this.groupsIn[this.parent[group]].push(group);
    this.of = nodes.get("group");
    for (let node = 0; node < nodes.length; node += 1) if (!model.isLeaf(node)) this.nodesIn[this.of[node]].push(node);
    this.findSteps();
    this.placeLeaves();
    this.sumUp();
  }

  /** By rank and number the group of each step, by rank its own group; by group the step around it, 0 where there is none. */
  findSteps() {
    const { rank, step } = this.model.groups.columns;
    /** @type {Map<string, number>} */
    this.steps = new Map();
    /** @type {Map<number, number>} */
    this.ranks = new Map();
    this.stepOf = new Int32Array(this.size);
    for (let group = 1; group < this.size; group += 1) {
      this.stepOf[group] = this.form[group] === STEP ? group : this.stepOf[this.parent[group]];
      if (this.form[group] === STEP) this.steps.set(`${rank[group]} ${step[group]}`, group);
      if (this.form[group] === RANK) this.ranks.set(rank[group], group);
    }
  }

  /** The group of the step of a backward; undefined where steps are not told apart. @param {number} backward */
  stepOfBackward(backward) {
    const { rank, step } = this.model.backwards.columns;
    return this.steps.get(`${rank[backward]} ${step[backward]}`);
  }

  /** What is drawn of a backward: its step, or else all of its rank. @param {number} backward -1 for all of the rank @param {number} rank */
  rootOf(backward, rank) {
    const step = backward >= 0 ? this.stepOfBackward(backward) : undefined;
    return step ?? this.ranks.get(rank) ?? ALL;
  }

  /** Each leaf stands beside the node that uses it first, in each of several steps. */
  placeLeaves() {
    const { edges } = this.model;
    const tail = edges.get("tail");
    /** @type {Map<number, Map<number, number>>} by leaf, by group of a step, who uses it first there */
    this.users = new Map();
    edges.get("head").forEach((/** @type {number} */ leaf, /** @type {number} */ edge) => {
      if (!this.model.isLeaf(leaf)) return;
      if (!this.users.has(leaf)) this.users.set(leaf, new Map());
      const users = /** @type {Map<number, number>} */ (this.users.get(leaf));
      const step = this.stepOf[this.of[tail[edge]]];
      users.set(step, Math.min(users.get(step) ?? Infinity, tail[edge]));
    });
    for (const [leaf, users] of this.users) for (const user of users.values()) this.nodesIn[this.of[user]].push(leaf);
  }

  /** The group that a node stands in; of a leaf, in the step that is shown. @param {number} node @param {number} root */
  homeOf(node, root) {
    const user = root > 0 ? this.users.get(node)?.get(this.stepOf[root]) : undefined;
    return this.of[user ?? node];
  }

  sumUp() {
    const { nodes, runs } = this.model;
    this.nodeCount = new Int32Array(this.size);
    this.leafCount = new Int32Array(this.size);
    this.alarms = new Int32Array(this.size);
    /** By group, how many nodes in it have a value that is not finite. */
    this.notFinite = new Int32Array(this.size);
    this.first = new Int32Array(this.size).fill(2 ** 31 - 1);
    this.last = new Int32Array(this.size).fill(-1);
    this.ns = new Float64Array(this.size);
    this.savedBytes = new Float64Array(this.size);
    this.nodeNs = new Float64Array(nodes.length);
    const [ran, owner] = [runs.get("self_ns"), runs.get("backward")];
    const step = Array.from(this.model.backwards.get("step"), (_, row) => this.stepOfBackward(row) ?? 0);
    runs.get("node").forEach((/** @type {number} */ node, /** @type {number} */ run) => {
      if (node < 0) return;
      this.nodeNs[node] += Math.max(ran[run], 0);
      this.ns[this.homeOf(node, step[owner[run]] ?? 0)] += Math.max(ran[run], 0);
    });
    const alarming = ["first NaN produced here", "first Inf produced here", "raised"].map((mark) => 1 << this.model.facts.marks.indexOf(mark));
    const notFinite = 1 << this.model.facts.marks.indexOf("not finite");
    const alarm = alarming.reduce((sum, bit) => sum | bit, 0);
    for (let node = 0; node < nodes.length; node += 1) {
      const group = this.of[node];
      const homes = [...this.users.get(node)?.values() ?? [node]].map((user) => this.of[user]);
      if (nodes.get("marks")[node] & notFinite) for (const each of homes) this.notFinite[each] += 1;
      if (nodes.get("marks")[node] & alarm || this.model.wrong[node]) for (const each of homes) this.alarms[each] += 1;
      if (this.model.isLeaf(node)) {
        for (const each of new Set(homes.flatMap((home) => this.around(home)))) this.leafCount[each] += 1;
        continue;
      }
      this.nodeCount[group] += 1;
      this.first[group] = Math.min(this.first[group], node);
      this.last[group] = Math.max(this.last[group], node);
    }
    const { saved } = this.model.tables;
    saved.get("node").forEach((/** @type {number} */ node, /** @type {number} */ row) => { if (node >= 0) this.savedBytes[this.of[node]] += saved.get("bytes")[row]; });
    this.findKinds();
    for (let group = this.size - 1; group > 0; group -= 1) {
      const up = this.parent[group];
      this.savedBytes[up] += this.savedBytes[group];
      this.nodeCount[up] += this.nodeCount[group];
      this.alarms[up] += this.alarms[group];
      this.notFinite[up] += this.notFinite[group];
      this.ns[up] += this.ns[group];
      this.first[up] = Math.min(this.first[up], this.first[group]);
      this.last[up] = Math.max(this.last[up], this.last[group]);
    }
  }

  /** By group the kind that most of its time went to, or most of its nodes where no times are known. */
  findKinds() {
    const { nodes, facts } = this.model;
    const kind = nodes.get("kind");
    const kinds = facts.kinds.length;
    const weight = new Float64Array(this.size * kinds);
    for (let node = 0; node < nodes.length; node += 1) if (!this.model.isLeaf(node)) weight[this.of[node] * kinds + kind[node]] += this.nodeNs[node] || 1e-6;
    this.mainKind = new Uint8Array(this.size);
    for (let group = this.size - 1; group >= 0; group -= 1) {
      let best = 0;
      for (let each = 0; each < kinds; each += 1) {
        if (group > 0) weight[this.parent[group] * kinds + each] += weight[group * kinds + each];
        if (weight[group * kinds + each] > weight[group * kinds + best]) best = each;
      }
      this.mainKind[group] = best;
    }
  }

  /** The nodes in a group and in those inside it. @param {number} group @returns {Int32Array} */
  nodesUnder(group) {
    if (!this.under.has(group)) {
      const found = [];
      for (let each = group; each < this.size && (each === group || this.parent[each] >= group); each += 1) found.push(...this.nodesIn[each]);
      this.under.set(group, Int32Array.from(new Set(found)));
    }
    return this.under.get(group);
  }

  /** @param {number} group @returns {number[]} it and the groups around it, innermost first */
  around(group) {
    const found = [];
    for (; group >= 0; group = this.parent[group]) found.push(group);
    return found;
  }

  /** @param {number} group @param {number} inside */
  contains(group, inside) {
    for (; inside >= 0; inside = this.parent[inside]) if (inside === group) return true;
    return false;
  }

  /** @param {number} group @returns {string} */
  title(group) {
    return this.model.groups.text("title", group);
  }

  /** The parts of a group in the order they were made. @param {number} group @returns {{group?: number, node?: number}[]} */
  parts(group) {
    const user = (/** @type {number} */ leaf) => this.users.get(leaf)?.get(this.stepOf[group]);
    const parts = [
      ...this.groupsIn[group].map((each) => ({ group: each, at: this.first[each] })),
      ...this.nodesIn[group].map((each) => ({ node: each, at: (user(each) ?? each + 0.5) - 0.5 })),
    ];
    return parts.sort((one, other) => one.at - other.at);
  }

  /** How many groups a group is, with those in it: they are numbered one after the other. @param {number} group */
  extent(group) {
    let end = group + 1;
    while (end < this.size && this.parent[end] >= group) end += 1;
    return end - group;
  }

  /** The first step that is built as this one and has findings wherever this one has; else itself. @param {number} step */
  modelOf(step) {
    if (this.form[step] !== STEP) return step;
    const extent = this.extent(step);
    const paths = this.model.groups.get("path");
    const alike = (/** @type {number} */ one, /** @type {number} */ other) => this.form[one] === this.form[other] && paths[one] === paths[other]
      && this.boxesWhenOpen(one) === this.boxesWhenOpen(other) && (this.alarms[one] > 0 || !this.alarms[other]);
    for (const first of this.steps.values()) {
      if (first === step) break;
      if (this.extent(first) !== extent) continue;
      let at = 0;
      while (at < extent && alike(first + at, step + at) && (at === 0 || this.parent[first + at] - first === this.parent[step + at] - step)) at += 1;
      if (at === extent) return first;
    }
    return step;
  }

  /** The slowest iteration of a loop. @param {number} loop @returns {{title: string, ns: number} | null} */
  slowestTurn(loop) {
    let best = null;
    const waiting = [loop];
    while (waiting.length) {
      const group = /** @type {number} */ (waiting.pop());
      for (const each of this.groupsIn[group]) {
        if (this.form[each] === STRETCH) waiting.push(each);
        else if (!best || this.ns[each] > best.ns) best = { title: this.title(each).replace(/, the slowest$/, ""), ns: this.ns[each] };
      }
      for (const node of this.form[group] === STRETCH || group === loop ? this.nodesIn[group] : []) {
        if (!this.model.isLeaf(node) && (!best || this.nodeNs[node] > best.ns)) {
          best = { title: this.model.unique(node), ns: this.nodeNs[node] };
        }
      }
    }
    return best;
  }

  /**
   * Best first: what holds findings, then what took longest, is opened while at most `limit` boxes stand.
   * @param {number} root @param {number} limit @param {Set<number>} wanted groups to open before all others
   * @returns {Set<number>} the open groups
   */
  openBestFirst(root, limit, wanted) {
    const open = new Set([root]);
    let boxes = this.boxesWhenOpen(root);
    const waiting = [...this.groupsIn[root]];
    const total = this.ns[root] || 1;
    const weight = (/** @type {number} */ group) => (wanted.has(group) ? 1e9 : 0) + (this.alarms[group] ? 1e6 : 0)
      + (this.form[group] === STRETCH ? -1e3 : 0) + 100 * this.ns[group] / total + this.nodeCount[group] / this.nodeCount[root];
    while (waiting.length) {
      let best = 0;
      for (let at = 1; at < waiting.length; at += 1) if (weight(waiting[at]) > weight(waiting[best])) best = at;
      const [group] = waiting.splice(best, 1);
      const more = this.boxesWhenOpen(group) - 1;
      const inLoop = this.form[group] === STRETCH || this.form[this.parent[group]] === LOOP && !this.alarms[group];
      if (!wanted.has(group) && (boxes + more > limit || inLoop && boxes > limit / 8)) continue;
      open.add(group);
      boxes += more;
      waiting.push(...this.groupsIn[group]);
    }
    return open;
  }

  /** @param {number} group */
  boxesWhenOpen(group) {
    return this.groupsIn[group].length + this.nodesIn[group].length;
  }

  /**
   * For each node of a group the box that stands for it: a node's own row, or -2 - its outermost closed group.
   * @param {number} root @param {Set<number>} open @returns {Int32Array} -1 for nodes that are not in the group
   */
  boxes(root, open) {
    const boxOfGroup = new Int32Array(this.size).fill(-1);
    const inside = new Uint8Array(this.size);
    for (let group = root; group < this.size; group += 1) {
      const up = this.parent[group];
      inside[group] = group === root || up >= root && inside[up] === 1 ? 1 : 0;
      if (!inside[group] || group === root) continue;
      boxOfGroup[group] = boxOfGroup[up] !== -1 ? boxOfGroup[up] : open.has(group) ? -1 : -2 - group;
    }
    const found = new Int32Array(this.of.length).fill(-1);
    for (let node = 0; node < found.length; node += 1) {
      const home = this.homeOf(node, root);
      if (inside[home]) found[node] = boxOfGroup[home] === -1 ? node : boxOfGroup[home];
    }
    return found;
  }
}
