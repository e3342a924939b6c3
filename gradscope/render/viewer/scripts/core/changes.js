/** The differences between the page's trace and the earlier one. */

/** @typedef {import("./data.js").Model} Model */
/** @typedef {import("./tree.js").Tree} Tree */

const SAME = 1;
const NEW = 2;
export const SLOWER = 1;
export const FASTER = 2;

/** By node and by group: what is new, gone or changed there, and how much longer it took. */
export class Changes {
  /** @param {Model} model @param {Tree} tree */
  constructor(model, tree) {
    const { compared, gone } = model.tables;
    this.facts = model.facts.compared;
    this.status = compared.get("status");
    /** The time of each node in the earlier trace and in this one: medians of steps where there are enough. */
    this.before = compared.get("ran");
    this.now = compared.get("now");
    /** @type {import("./data.js").Column | undefined} which node of the earlier trace it is */
    this.then = compared.get("then");
    this.verdict = compared.get("verdict");
    this.columns = compared.columns;
    const size = this.status.length;
    this.findChanged(model, size);
    this.more = new Float64Array(size);
    /** @type {Map<number, number[]>} rows of what is gone, by the node in whose place it stood */
    this.goneAt = new Map();
    gone.get("node").forEach((/** @type {number} */ node, /** @type {number} */ row) => {
      if (node >= 0) this.goneAt.set(node, [...this.goneAt.get(node) ?? [], row]);
    });
    /** @type {Set<number>} rows of what is gone because something else is in its place */
    this.replaced = new Set(gone.get("row") ? [...gone.get("row").keys()].filter((row) => this.changedThen.has(gone.get("row")[row])) : []);
    this.newIn = new Int32Array(tree.size);
    this.sameIn = new Int32Array(tree.size);
    this.goneIn = new Int32Array(tree.size);
    this.changedIn = new Int32Array(tree.size);
    this.moreIn = new Float64Array(tree.size);
    this.beforeIn = new Float64Array(tree.size);
    this.nowIn = new Float64Array(tree.size);
    const of = model.nodes.get("group");
    for (let node = 0; node < size; node += 1) {
      const group = of[node];
      if (this.status[node] === SAME) this.sameIn[group] += 1;
      if (this.facts.timed && this.status[node] === SAME) this.more[node] = this.moreThan(node);
      if (this.isNew(node) && this.changeOf[node] < 0) this.newIn[group] += 1;
      if (this.changeOf[node] >= 0) this.changedIn[group] += 1;
      this.goneIn[group] += this.goneFrom(node).length;
      this.moreIn[group] += this.more[node];
      this.beforeIn[group] += Math.max(this.before[node], 0);
      this.nowIn[group] += Math.max(this.now[node], 0);
    }
    for (let group = tree.size - 1; group > 0; group -= 1) {
      for (const each of [this.newIn, this.sameIn, this.goneIn, this.changedIn, this.moreIn, this.beforeIn, this.nowIn]) each[tree.parent[group]] += each[group];
    }
  }

  /** Which nodes of both traces the changes are about. @param {Model} model @param {number} size */
  findChanged(model, size) {
    /** By node: the change that replaced it or gave it other arguments, or -1. */
    this.changeOf = new Int32Array(size).fill(-1);
    /** @type {Map<number, number>} the same by node of the earlier trace */
    this.changedThen = new Map();
    /** @type {number[][]} the nodes of this trace, by change */
    this.nodesOf = Array.from({ length: model.tables.changes?.length ?? 0 }, () => []);
    /** @type {number[][]} those of the earlier trace, by change */
    this.nodesThen = this.nodesOf.map(() => []);
    if (!model.tables.changes) return;
    const { changes, change_nodes: pairs } = model.tables;
    /** @type {Map<number, number> | null} calls of the forward graph by the node that they created */
    const calls = model.isForward ? new Map([...model.nodes.get("made")].map((made, call) => [made, call])) : null;
    pairs.get("node").forEach((/** @type {number} */ of, /** @type {number} */ row) => {
      const change = pairs.get("change")[row];
      const later = pairs.get("later")[row] === 1;
      const node = calls && later ? calls.get(of) ?? -1 : of;
      if (node < 0 || calls && !later) return;
      const marked = changes.get("marked")[change] === 1;
      if (later) {
        this.nodesOf[change].push(node);
        if (marked) this.changeOf[node] = change;
      } else {
        this.nodesThen[change].push(node);
        if (marked) this.changedThen.set(node, change);
      }
    });
  }

  /** How much longer a node took; of medians only what is clearly more, or less, than their spread. @param {number} node */
  moreThan(node) {
    const more = Math.max(this.now[node], 0) - Math.max(this.before[node], 0);
    return this.enough && this.verdict[node] <= 0 ? 0 : more;
  }

  /** Whether there are enough steps to say what is slower. */
  get enough() {
    return Boolean(this.verdict && this.facts.times.enough);
  }

  /** Rows of what is gone in front of a node, without what was replaced. @param {number} node */
  goneFrom(node) {
    return (this.goneAt.get(node) ?? []).filter((row) => !this.replaced.has(row));
  }

  /** @param {number} node */
  isNew(node) {
    return this.status[node] === NEW;
  }

  /** @param {any} box @returns {string[]} the signs on it */
  signs(box) {
    const group = box.is === "group";
    const changed = group ? this.changedIn[box.group] > 0 : this.changeOf[box.node] >= 0;
    const signs = changed ? ["≠"] : [];
    if (group ? this.newIn[box.group] : this.isNew(box.node) && !changed) signs.push("+");
    if (group ? this.goneIn[box.group] : box.is === "node" && this.goneFrom(box.node).length) signs.push("−");
    return signs;
  }

  /** Whether both traces have it, or something in it. @param {any} box */
  wasThere(box) {
    return box.is === "group" ? this.sameIn[box.group] > 0 : this.status[box.node] === SAME;
  }

  /** How much longer than before, of what was there. @param {any} box */
  moreOf(box) {
    return box.is === "group" ? this.moreIn[box.group] : this.more[box.node];
  }
}
