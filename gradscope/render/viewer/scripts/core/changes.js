/** The differences between the page's trace and the earlier one. */

/** @typedef {import("./data.js").Model} Model */
/** @typedef {import("./tree.js").Tree} Tree */

const SAME = 1;
const NEW = 2;

/** By node and by group: what is new, what is gone there, and how much longer it took. */
export class Changes {
  /** @param {Model} model @param {Tree} tree */
  constructor(model, tree) {
    const { compared, gone } = model.tables;
    this.facts = model.facts.compared;
    this.status = compared.get("status");
    this.before = compared.get("ran");
    const size = this.status.length;
    this.more = new Float64Array(size);
    /** @type {Map<number, number[]>} rows of what is gone, by the node in whose place it stood */
    this.goneAt = new Map();
    gone.get("node").forEach((/** @type {number} */ node, /** @type {number} */ row) => {
      if (node >= 0) this.goneAt.set(node, [...this.goneAt.get(node) ?? [], row]);
    });
    this.newIn = new Int32Array(tree.size);
    this.sameIn = new Int32Array(tree.size);
    this.goneIn = new Int32Array(tree.size);
    this.moreIn = new Float64Array(tree.size);
    this.beforeIn = new Float64Array(tree.size);
    const of = model.nodes.get("group");
    for (let node = 0; node < size; node += 1) {
      const group = of[node];
      const before = this.before[node];
      if (this.status[node] === SAME) this.sameIn[group] += 1;
      if (this.facts.timed && this.status[node] === SAME) this.more[node] = tree.nodeNs[node] - Math.max(before, 0);
      if (this.isNew(node)) this.newIn[group] += 1;
      this.goneIn[group] += this.goneAt.get(node)?.length ?? 0;
      this.moreIn[group] += this.more[node];
      this.beforeIn[group] += Math.max(before, 0);
    }
    for (let group = tree.size - 1; group > 0; group -= 1) {
      for (const each of [this.newIn, this.sameIn, this.goneIn, this.moreIn, this.beforeIn]) each[tree.parent[group]] += each[group];
    }
  }

  /** @param {number} node */
  isNew(node) {
    return this.status[node] === NEW;
  }

  /** @param {any} box @returns {string[]} the signs on it */
  signs(box) {
    const group = box.is === "group";
    const signs = (group ? this.newIn[box.group] : this.isNew(box.node)) ? ["+"] : [];
    if (group ? this.goneIn[box.group] : box.is === "node" && this.goneAt.has(box.node)) signs.push("−");
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
