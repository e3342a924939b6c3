/** The trace in the page: columns of numbers, and the texts they refer to. */

/**
 * A column of a table; of times, counted from the beginning of the page.
 * @typedef {Int8Array | Uint8Array | Int16Array | Uint16Array | Int32Array | Float32Array | Float64Array} Column
 */

/** One table: columns by name, and its texts by row. */
export class Table {
  /** @param {Record<string, Column>} columns @param {string[]} texts */
  constructor(columns, texts) {
    this.columns = columns;
    this.texts = texts;
    this.length = Object.values(columns)[0]?.length ?? 0;
  }

  /** @param {string} name @returns {Column} */
  get(name) {
    return this.columns[name];
  }

  /** @param {string} name @param {number} row @returns {string} */
  text(name, row) {
    return this.texts[this.columns[name][row]] ?? "";
  }
}

/** For each key the rows that have it, in order. */
export class Index {
  /** @param {Column} keys @param {number} size */
  constructor(keys, size) {
    this.starts = new Int32Array(size + 1);
    for (const key of keys) if (key >= 0) this.starts[key + 1] += 1;
    for (let key = 0; key < size; key += 1) this.starts[key + 1] += this.starts[key];
    const next = this.starts.slice();
    this.rows = new Int32Array(this.starts[size]);
    keys.forEach((/** @type {number} */ key, /** @type {number} */ row) => {
      if (key >= 0) this.rows[next[key]++] = row;
    });
  }

  /** @param {number} key @returns {Int32Array} */
  of(key) {
    return this.rows.subarray(this.starts[key], this.starts[key + 1]);
  }
}

/** All data of the page, with look-ups. */
export class Model {
  /** @param {Record<string, any>} facts @param {Record<string, Table>} tables */
  constructor(facts, tables) {
    this.facts = facts;
    this.tables = tables;
    const { nodes, edges, groups, runs, backwards, events, saved, values, hooks } = tables;
    this.nodes = nodes;
    this.edges = edges;
    this.groups = groups;
    this.runs = runs;
    this.backwards = backwards;
    this.events = events;
    for (const name of ["pushed", "begun", "ended"]) runs.columns[`${name}_t`] = this.timesOf(runs.get(name));
    runs.columns.self_ns = ownTimes(runs);
    tables.queue.columns.t = this.timesOf(tables.queue.get("event"));
    if (tables.calls && nodes !== tables.calls) nodes.columns.op_ns = timesOfCalls(nodes, tables.calls);
    if (!nodes.columns.ordinal) nodes.columns.ordinal = ordinalsOf(nodes, true);
    const size = nodes.length;
    this.gives = new Index(edges.get("tail"), size);
    this.takes = new Index(edges.get("head"), size);
    this.runsOf = new Index(runs.get("node"), size);
    this.savedOf = new Index(saved.get("node"), size);
    this.valuesOf = new Index(values.get("node"), size);
    this.findingsOf = new Index(tables.findings.get("node"), size);
    /** By node: whether it has a finding above the severity note. */
    this.wrong = new Uint8Array(size);
    tables.findings.get("node").forEach((/** @type {number} */ node, /** @type {number} */ row) => {
      if (node >= 0 && tables.findings.get("severity")[row] > 0) this.wrong[node] = 1;
    });
    this.hooksOf = new Index(hooks.get("node"), size);
    this.stackRow = rowsById(tables.stacks);
    this.frameRow = rowsById(tables.frames);
    this.isForward = false;
    /** @type {Set<number> | null} the lines through which nodes were created */
    this.framesOfNodes = null;
    /** @type {Int32Array | undefined} */
    this.eventRanks = undefined;
    /** Whether some calls created a node, so that the others say why they did not. */
    this.someMade = false;
    this.engineSeen = runs.length > 0;
    this.readySeen = runs.get("pushed").some((/** @type {number} */ each) => each >= 0);
  }

  /** The rows of the backwards of a rank; all in the trace of one process. @param {number} rank @returns {number[]} */
  backwardsOf(rank) {
    const of = this.backwards.get("rank");
    return [...of.keys()].filter((row) => of[row] === rank);
  }

  /** As in "rank 0 · step 1 · backward 2 at train.py:9". @param {number} row @param {boolean} [step] whether to say the step */
  backwardName(row, step = true) {
    const { backwards } = this;
    const parts = [backwards.text("title", row)];
    if (step && backwards.get("step")[row] >= 0) parts.unshift(`step ${backwards.get("step")[row]}`);
    if (backwards.get("rank")[row] >= 0) parts.unshift(`rank ${backwards.get("rank")[row]}`);
    return parts.join(" · ");
  }

  /** The rank of a node, in a merged trace; else -1. @param {number} node */
  rankOf(node) {
    return this.groups.get("rank")[this.nodes.get("group")[node]];
  }

  /** The rank of each event, by its thread. @returns {Int32Array} */
  get rankOfEvent() {
    if (!this.eventRanks) {
      const { threads } = this.tables;
      if (!this.facts.ranks.length) {
        this.eventRanks = new Int32Array(this.events.length).fill(-1);
        return this.eventRanks;
      }
      const rank = new Map([...threads.get("id")].map((id, row) => [id, threads.get("rank")[row]]));
      this.eventRanks = Int32Array.from(this.events.get("thread"), (thread) => rank.get(thread) ?? -1);
    }
    return this.eventRanks;
  }

  /** Why there are no runs of nodes to show. */
  get whyUnseen() {
    return this.nodes.length ? "events of the engine are not recorded at level graph" : "no backward ran: nothing required a gradient";
  }

  /** @param {Column} events @returns {Float64Array} when each of these was; -1 where there was none */
  timesOf(events) {
    const t = this.events.get("t");
    return Float64Array.from(events, (event) => (event < 0 ? -1 : t[event]));
  }

  /** The threads or devices of which there are several: what the lanes of nodes are called. @returns {string[]} */
  get lanes() {
    return this.isForward ? this.facts.forward.lanes : this.facts.lanes;
  }

  /** The lane that all of these nodes are in; -1 where there is none, or more than one. @param {Iterable<number>} nodes */
  laneOf(nodes) {
    const lanes = this.nodes.get("lane");
    let found = -1;
    for (const node of nodes) {
      if (found >= 0 && lanes[node] !== found) return -1;
      found = lanes[node];
      if (found < 0) return -1;
    }
    return found;
  }

  /** @param {number} node @returns {string} the name that only this node has */
  unique(node) {
    const ordinal = this.nodes.get("ordinal")[node];
    return this.nodes.text("name", node) + (ordinal ? `#${ordinal}` : "");
  }

  /** @param {number} node @returns {string} its name; of a leaf, that of its tensor */
  title(node) {
    return this.nodes.text("leaf", node) || this.unique(node);
  }

  /** @param {string} title @returns {number} the first node that is called so, or -1 */
  titled(title) {
    for (let node = 0; node < this.nodes.length; node += 1) if (this.title(node) === title) return node;
    return -1;
  }

  /** @param {number} node */
  isLeaf(node) {
    return this.nodes.get("is_leaf")[node] === 1;
  }

  /** @param {number} node @param {string} mark */
  has(node, mark) {
    const place = this.facts.marks.indexOf(mark);
    return (this.nodes.get("marks")[node] >> place & 1) === 1;
  }

  /** @param {number} node @returns {string[]} what is remarkable about it */
  marksOf(node) {
    return this.facts.marks.filter((/** @type {string} */ mark) => this.has(node, mark));
  }

  /** The lines of a call stack, innermost first. @param {number} stack @returns {number[]} rows of frames */
  frames(stack) {
    const { stacks } = this.tables;
    const found = [];
    for (let turns = 0; turns < 200 && this.stackRow.has(stack); turns += 1) {
      const row = /** @type {number} */ (this.stackRow.get(stack));
      const frame = this.frameRow.get(stacks.get("frame")[row]);
      if (frame !== undefined) found.push(frame);
      stack = stacks.get("parent")[row];
    }
    return found;
  }

  /** @param {number} frame @returns {string} as in "train.py:41" */
  place(frame) {
    const { frames } = this.tables;
    return `${frames.text("file", frame)}:${frames.get("line")[frame]}`;
  }

  /** @param {number} frame @returns {string} the same without the folders */
  shortPlace(frame) {
    return this.place(frame).replace(/^.*[\\/]/, "");
  }

  /** @param {number} node @returns {number} the row of its line; -1 where none is known */
  frameOf(node) {
    return this.frames(this.nodes.get("stack")[node])[0] ?? -1;
  }

  /** Whether a node was created through this line. @param {number} frame */
  makesNodes(frame) {
    if (!this.framesOfNodes) {
      this.framesOfNodes = new Set();
      for (const stack of new Set(this.nodes.get("stack"))) for (const each of this.frames(stack)) this.framesOfNodes.add(each);
    }
    return this.framesOfNodes.has(frame);
  }

  /** @param {string} name @returns {number} the node of a unique name, or -1 */
  nodeNamed(name) {
    for (let node = 0; node < this.nodes.length; node += 1) {
      if (this.unique(node) === name) return node;
    }
    return -1;
  }
}

/** @param {Table} table @returns {Map<number, number>} */
function rowsById(table) {
  const found = new Map();
  table.get("id").forEach((/** @type {number} */ id, /** @type {number} */ row) => found.set(id, row));
  return found;
}

/** Stands for a time that other columns hold. */
const SAME_TIME = -2;

/** How long each run took without what ran inside it: mostly from its start to its end. @param {Table} runs @returns {Float64Array} */
function ownTimes(runs) {
  const [begun, ended] = [runs.get("begun_t"), runs.get("ended_t")];
  return Float64Array.from(runs.get("self_ns"), (own, run) => (own === SAME_TIME ? ended[run] - begun[run] : own));
}

/** How long the call of each node took. @param {Table} nodes @param {Table} calls @returns {Float64Array} */
function timesOfCalls(nodes, calls) {
  const found = Float64Array.from(nodes.get("op_ns"));
  const took = calls.get("op_ns");
  calls.get("made").forEach((/** @type {number} */ node, /** @type {number} */ call) => { if (found[node] === SAME_TIME) found[node] = took[call]; });
  return found;
}

const MAKERS = { i1: Int8Array, u1: Uint8Array, i2: Int16Array, u2: Uint16Array, i4: Int32Array, f4: Float32Array, f8: Float64Array };
const LENGTH = 8;

/** @param {string} base64 @returns {Uint8Array<ArrayBuffer>} */
function bytesOf(base64) {
  if ("fromBase64" in Uint8Array) return /** @type {any} */ (Uint8Array).fromBase64(base64); // not in older browsers
  const binary = atob(base64);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at += 1) bytes[at] = binary.charCodeAt(at);
  return bytes;
}

/** @param {string} base64 @returns {Promise<Model>} */
export async function unpack(base64) {
  const stream = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream("gzip"));
  const content = await new Response(stream).arrayBuffer();
  const length = Number(new DataView(content).getBigUint64(0, true));
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(content, LENGTH, length)));
  /** @type {Record<string, Table>} */
  const tables = {};
  for (const [name, columns] of Object.entries(head.tables)) {
    /** @type {Record<string, Column>} */
    const found = {};
    for (const [key, [type, offset, rows, first]] of Object.entries(columns)) {
      const Maker = MAKERS[/** @type {keyof MAKERS} */ (type)];
      const stored = new Maker(together(new Uint8Array(content, LENGTH + length + offset, rows * Maker.BYTES_PER_ELEMENT), rows));
      found[key] = first === null ? stored : summed(stored, first);
    }
    tables[name] = new Table(found, head.texts);
  }
  return new Model(head.facts, tables);
}

/** The bytes of each number side by side, which lie in the page by their weight. @param {Uint8Array} bytes @param {number} rows @returns {ArrayBuffer} */
function together(bytes, rows) {
  const width = rows ? bytes.length / rows : 0;
  if (width === 1) return bytes.slice().buffer;
  const found = new Uint8Array(bytes.length);
  for (let byte = 0; byte < width; byte += 1) {
    for (let row = 0, from = byte * rows; row < rows; row += 1) found[row * width + byte] = bytes[from + row];
  }
  return found.buffer;
}

/** @param {Column} differences @param {number} first @returns {Float64Array} */
function summed(differences, first) {
  const found = new Float64Array(differences.length);
  let total = first;
  for (let at = 0; at < found.length; at += 1) {
    total += differences[at];
    found[at] = total;
  }
  return found;
}

/**
 * Which of those of its name each is: 0 of those that are alone. What is told is how far that is ahead of how many of the name came before.
 * @param {Table} table @param {boolean} leaves whether they count, too
 */
export function ordinalsOf(table, leaves) {
  const seen = new Map();
  const [names, behind, isLeaf] = [table.get("name"), table.get("behind"), table.get("is_leaf")];
  return Int32Array.from(names, (name, row) => {
    if (isLeaf[row] && !leaves) return 0;
    seen.set(name, (seen.get(name) ?? 0) + 1);
    return seen.get(name) + behind[row];
  });
}
