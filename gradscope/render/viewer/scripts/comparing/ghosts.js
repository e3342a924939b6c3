/** Nodes that only the earlier trace has, drawn in their place in the graph of the later one. */

import { keyOf } from "../core/picture.js";
import { shorten } from "../core/words.js";

/** @typedef {import("./before.js").Before} Before */

/** What a picture needs to draw them. */
export class Ghosts {
  /** @param {Before} before */
  constructor(before) {
    this.before = before;
    /** @type {Map<number, Map<number, {row: number, node: number}[]>>} by root and by group */
    this.known = new Map();
    const { gone } = before;
    /** @type {Map<number, number>} rows of what is gone, by node of the earlier trace */
    this.rowOf = new Map();
    gone.get("row").forEach((/** @type {number} */ node, /** @type {number} */ row) => {
      if (node >= 0 && gone.get("node")[row] >= 0 && !gone.get("is_leaf")[row]) this.rowOf.set(node, row);
    });
  }

  /** Those that belong in a group. @param {number} group @param {number} root @returns {{row: number, node: number}[]} with the node in whose place each was */
  in(group, root) {
    const { tree } = this.before.main;
    const known = this.known.get(root) ?? new Map();
    if (!this.known.has(root)) {
      this.known.set(root, known);
      for (const row of this.rowOf.values()) {
        const node = this.before.gone.get("node")[row];
        const home = tree.homeOf(node, root);
        known.set(home, [...known.get(home) ?? [], { row, node }]);
      }
    }
    return known.get(group) ?? [];
  }

  /** Arrows to and from them, between boxes of a picture. @param {import("../core/picture.js").Picture} picture */
  links(picture) {
    const { model, nowOf } = this.before;
    const key = (/** @type {number} */ node) => {
      const row = this.rowOf.get(node);
      if (row !== undefined) return picture.boxes.has(`x${row}`) ? `x${row}` : "";
      const now = nowOf[node];
      return now >= 0 && !model.isLeaf(node) && picture.boxOf[now] !== -1 ? keyOf(picture.boxOf[now]) : "";
    };
    const found = [];
    const [tails, heads] = [model.edges.get("tail"), model.edges.get("head")];
    for (let edge = 0; edge < tails.length; edge += 1) {
      if (!this.rowOf.has(tails[edge]) && !this.rowOf.has(heads[edge])) continue;
      const [tail, head] = [key(tails[edge]), key(heads[edge])];
      if (tail && head && tail !== head) found.push({ tail, head });
    }
    return found;
  }

  /** The texts of a box. @param {any} box */
  describe(box) {
    const { gone } = this.before;
    box.title = shorten(gone.text("title", box.ghost), 34);
    box.ordinal = "";
    box.badges = 0;
    box.lines = [`gone${gone.text("place", box.ghost) ? `, ${shorten(gone.text("place", box.ghost), 28)}` : ""}`];
  }
}
