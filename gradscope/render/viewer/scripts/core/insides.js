/** What is inside of compiled regions, as the compiler reported it: nothing of it was observed when a region ran. */

import { Index } from "./data.js";
import { shorten } from "./words.js";

/** The operations inside the nodes or calls of a graph. */
export class Insides {
  /** @param {import("./data.js").Model} model */
  constructor(model) {
    const { region_parts: parts, region_ops: ops, region_reads: reads } = model.tables;
    this.parts = parts;
    this.ops = ops;
    this.reads = reads;
    this.regions = model.nodes.get("region");
    this.opsOf = new Index(ops.get("part"), parts.length);
    this.readsOf = new Index(reads.get("op"), ops.length);
    /** @type {Map<number, number>} by region, its part in this graph */
    this.partOf = new Map();
    parts.get("region").forEach((/** @type {number} */ region, /** @type {number} */ row) => {
      if (Boolean(parts.get("is_forward")[row]) === model.isForward) this.partOf.set(region, row);
    });
  }

  /** The part of a region that a node or call stands for; -1 for none. @param {number} node */
  part(node) {
    return node < 0 ? -1 : this.partOf.get(this.regions[node]) ?? -1;
  }

  /** @param {number} node */
  has(node) {
    return this.part(node) >= 0;
  }

  /** The title of the frame around a node and what is inside of it. @param {number} node */
  title(node) {
    return `${this.parts.text("title", this.part(node))} (inferred)`;
  }

  /** @param {number} node @returns {Int32Array} rows of operations */
  of(node) {
    return this.opsOf.of(this.part(node));
  }

  /** The line that all operations inside come from; "" where there are several. @param {number} node */
  oneLine(node) {
    const places = new Set([...this.of(node)].map((op) => this.ops.text("place", op)));
    return places.size === 1 ? [...places][0] : "";
  }

  /** Arrows inside, and from the node to what reads an input of the region. @param {number} node @returns {{tail: string, head: string, edges: number[], type: string}[]} */
  links(node) {
    return [...this.of(node)].flatMap((op) => [...this.readsOf.of(op)].map((row) => {
      const source = this.reads.get("from")[row];
      return { tail: source < 0 ? `n${node}` : insideKey(node, source), head: insideKey(node, op), edges: [], type: source < 0 ? "" : this.ops.text("type", source) };
    }));
  }

  /** The texts of the box of an operation. @param {any} box */
  describe(box) {
    const { ops } = this;
    const text = (/** @type {string} */ name) => ops.text(name, box.op);
    box.title = shorten(text("op"), 34);
    box.ordinal = "";
    box.badges = 0;
    box.lines = [
      text("type"), this.oneLine(box.node) ? "" : text("place"), text("kernel") && `in ${text("kernel")}`, ops.get("kept")[box.op] ? "kept for backward" : "",
    ].filter(Boolean).map((line) => shorten(line, 34));
  }

  /** What the card says of an operation. @param {number} op @returns {[string, string][]} */
  facts(op) {
    const { ops } = this;
    const line = [ops.text("place", op), ops.text("code", op).trim()].filter(Boolean).join(" ");
    const facts = /** @type {[string, string][]} */ ([
      ["kind", "inside a compiled region"], ["result", ops.text("type", op)], ["line", line], ["kernel", ops.text("kernel", op)],
      ["kept", ops.get("kept")[op] ? "for backward" : ""], ["inferred", "the compiler reported it; it was not observed when the region ran"],
    ]);
    return facts.filter(([, value]) => value);
  }

  /** @param {number} op @returns {string} as in "mul_2 = mul" */
  fullName(op) {
    return `${this.ops.text("name", op)} = ${this.ops.text("op", op)}`;
  }
}

/** The key of the box of an operation inside a node. @param {number} node @param {number} op */
export function insideKey(node, op) {
  return `i${node}o${op}`;
}
