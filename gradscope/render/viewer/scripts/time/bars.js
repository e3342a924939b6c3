/** All bars of the page: modules, calls, nodes, hooks and spans of each thread, in rows. */

import { ordinalsOf } from "../core/data.js";
import { BarRow, nestedRows, unionOf, without } from "./bar_row.js";

/** @typedef {import("../core/data.js").Model} Model */
/** @typedef {import("../core/data.js").Table} Table */
/** @typedef {"spans" | "modules" | "calls" | "nodes" | "hooks"} Kind */

/** What a thread did, from the outside in. @type {Kind[]} */
export const KINDS_OF_BARS = ["spans", "modules", "calls", "nodes", "hooks"];
const OWN = "own work";
const WORK = ["optimizer", "collective"];

/** The rows of one thread. */
class ThreadBars {
  /** @param {number} id @param {string} name */
  constructor(id, name) {
    this.id = id;
    this.name = name;
    /** @type {Partial<Record<Kind, BarRow[]>>} */
    this.rows = {};
    /** When it ran a node; without gradscope's own work. @type {BarRow} */
    this.ran = new BarRow([], [], []);
    /** When it ran a call; without gradscope's own work. @type {BarRow} */
    this.called = this.ran;
    /** Gradscope's own work. @type {BarRow} */
    this.own = this.ran;
    /** When it ran an optimizer step or a collective. @type {BarRow} */
    this.worked = this.ran;
    /** When it was in a span, but for gradscope's own work. @type {BarRow} */
    this.named = this.ran;
    /** When it waited for work from others. @type {BarRow} */
    this.asleep = this.ran;
    /** @type {BarRow | null} */
    this.merged = null;
  }

  /** When it ran a node, a call, an optimizer step or a collective; without gradscope's own work. */
  get busy() {
    this.merged ??= unionOf([without(this.worked, this.own), this.ran, this.called].filter((row) => row.length));
    return this.merged;
  }
}

/** The bars of a page, by thread. */
export class Bars {
  /** @param {Model} model */
  constructor(model) {
    this.model = model;
    const { tables, runs } = model;
    this.calls = callColumns(tables.calls, tables.other_calls);
    const [first, last] = extentOf(model, this.calls);
    /** The first and the last moment at which something happened. */
    this.first = first;
    this.last = last;
    this.endsSeen = this.calls.ended.some((each) => each === 1);
    const filled = (/** @type {ArrayLike<number>} */ end) => Float64Array.from(end, (each) => (each < 0 ? this.last : each));
    /** By kind, when each bar begins and ends. @type {Record<Kind, {thread: ArrayLike<number>, begin: ArrayLike<number>, end: ArrayLike<number>, length: number}>} */
    this.sources = {
      spans: source(tables.spans, filled(tables.spans.get("end"))),
      modules: source(tables.module_runs, tables.module_runs.get("end")),
      calls: this.calls,
      nodes: { thread: runs.get("thread"), begin: runs.get("begun_t"), end: filled(runs.get("ended_t")), length: runs.length },
      hooks: source(tables.hooks, filled(tables.hooks.get("end"))),
    };
    this.ends = { steps: stepEnds(tables.steps, this.last), backwards: filled(tables.backwards.get("end")) };
    this.allThreads = this.byThread();
    this.allQueues = queues(model);
    this.show(model.facts.ranks[0] ?? -1);
  }

  /** Keep what belongs to a rank of a merged trace; -1: everything. @param {number} rank */
  show(rank) {
    if (this.rank === rank) return;
    this.rank = rank;
    const { tables } = this.model;
    const ofThread = new Map([...tables.threads.get("id")].map((id, row) => [id, tables.threads.get("rank")[row]]));
    const mine = (/** @type {number} */ thread) => rank < 0 || (ofThread.get(thread) ?? rank) === rank;
    this.threads = this.allThreads.filter((thread) => mine(thread.id));
    this.queues = this.allQueues.filter((queue) => rank < 0 || queue.rank === rank);
    this.steps = whole(tables.steps, this.ends.steps, rank);
    this.backwards = whole(tables.backwards, this.ends.backwards, rank);
    this.arrivals = moments(tables.arrivals, mine)[0] ?? new BarRow([], [], []);
    this.marks = moments(tables.marks, mine);
    const { t, bytes, rank: whose } = tables.memory.columns;
    const kept = Array.from(whose.keys()).filter((row) => whose[row] === rank);
    /** The bytes saved for backward, from each of these moments on. */
    this.saved = rank < 0 ? { t, value: bytes } : { t: kept.map((row) => t[row]), value: kept.map((row) => bytes[row]) };
  }

  /** The queues of the nodes that a thread ran. @param {number} thread */
  queuesOf(thread) {
    const { runs } = this.model;
    const ids = new Set();
    for (const row of this.threads.find((each) => each.id === thread)?.rows.nodes ?? []) for (const run of row.ids) ids.add(runs.get("queue")[run]);
    return this.queues.filter((queue) => ids.has(queue.id));
  }

  byThread() {
    const { tables } = this.model;
    const names = new Map([...tables.threads.get("id")].map((id, row) => [id, tables.threads.text("name", row)]));
    /** @type {Map<number, ThreadBars>} */
    const found = new Map();
    for (const kind of KINDS_OF_BARS) {
      const { thread, begin, end, length } = this.sources[kind];
      /** @type {Map<number, number[]>} */
      const ids = new Map();
      for (let id = 0; id < length; id += 1) {
        if (begin[id] < 0) continue;
        const mine = ids.get(thread[id]);
        if (mine) mine.push(id);
        else ids.set(thread[id], [id]);
      }
      for (const [id, mine] of ids) {
        if (!found.has(id)) found.set(id, new ThreadBars(id, names.get(id) ?? (id < 0 ? "whole program" : `thread ${id}`)));
        /** @type {ThreadBars} */ (found.get(id)).rows[kind] = nestedRows(mine, begin, end);
      }
    }
    for (const thread of found.values()) this.finish(thread);
    return [...found.values()].sort((one, other) => one.id - other.id);
  }

  /** @param {ThreadBars} thread */
  finish(thread) {
    const { spans, sleeps } = this.model.tables;
    const spansOf = (/** @type {(phase: string) => boolean} */ holds) => unionOf((thread.rows.spans ?? []).map((row) => pick(row, (id) => holds(spans.text("phase", id)))).filter((row) => row.length));
    thread.worked = spansOf((phase) => WORK.includes(phase));
    thread.named = spansOf((phase) => phase !== OWN);
    thread.own = spansOf((phase) => phase === OWN);
    thread.ran = without(unionOf((thread.rows.nodes ?? []).slice(0, 1)), thread.own);
    thread.called = without(unionOf((thread.rows.calls ?? []).slice(0, 1)), thread.own);
    const rows = [...sleeps.get("thread").keys()].filter((row) => sleeps.get("thread")[row] === thread.id);
    [thread.asleep] = [...nestedRows(rows, sleeps.get("begin"), sleeps.get("end")), thread.asleep];
  }

  /** The innermost bar of a kind that a moment lies in, of each thread. @param {Kind} kind @param {number} t @returns {number[]} */
  running(kind, t) {
    const found = [];
    for (const thread of this.threads) {
      for (const row of [...(thread.rows[kind] ?? [])].reverse()) {
        const at = row.at(t);
        if (at < 0) continue;
        found.push(row.ids[at]);
        break;
      }
    }
    return found;
  }

  /** The name of a call. @param {number} id */
  titleOfCall(id) {
    const { calls, other_calls: others } = this.model.tables;
    const drawn = this.calls.drawn;
    if (id < drawn) calls.columns.ordinal ??= ordinalsOf(calls, false);
    if (id >= drawn) return others.text("name", id - drawn);
    const ordinal = calls.get("ordinal")[id];
    return calls.text("name", id) + (ordinal ? `#${ordinal}` : "");
  }

  /** How long a node or a call ran, without gradscope's own work and the nodes inside it; less than 0 if it is not known. @param {"nodes" | "calls"} kind @param {number} id */
  ownTime(kind, id) {
    if (kind === "nodes") return this.model.runs.get("self_ns")[id];
    const { begin, end, ended, thread } = this.calls;
    return ended[id] ? end[id] - begin[id] - this.ownWork(thread[id], begin[id], end[id]) : -1;
  }

  /** How long gradscope's own work took on a thread. @param {number} thread @param {number} from @param {number} to */
  ownWork(thread, from, to) {
    return this.threads.find((each) => each.id === thread)?.own.busy(from, to) ?? 0;
  }

  /** The node that a call made; -1 for none. @param {number} id */
  nodeOfCall(id) {
    const { calls, other_calls: others } = this.model.tables;
    const drawn = this.calls.drawn;
    return id < drawn ? calls.get("made")[id] : others.get("node")[id - drawn];
  }

  /** @param {Kind} kind @param {number} id @returns {string} */
  title(kind, id) {
    const { model } = this;
    const { spans, hooks, module_runs: modules } = model.tables;
    if (kind === "nodes") return model.runs.get("node")[id] < 0 ? "a node that is not on this page" : model.title(model.runs.get("node")[id]);
    if (kind === "calls") return this.titleOfCall(id);
    if (kind === "hooks") return hooks.text("name", id) || `${hooks.text("kind", id)} hook`;
    if (kind === "spans") return spans.text("name", id) || "(unnamed)";
    return `${modules.text("path", id) || modules.text("type", id) || "(root)"}${modules.get("in_backward")[id] ? " backward" : ""}`;
  }
}

/** The bars of a row that a condition holds for. @param {BarRow} row @param {(id: number) => boolean} holds */
function pick(row, holds) {
  const places = [...row.ids.keys()].filter((at) => holds(row.ids[at]));
  return new BarRow(places, row.begin, row.end);
}

/** @param {Table} table @param {ArrayLike<number>} end */
function source(table, end) {
  return { thread: table.get("thread"), begin: table.get("begin"), end, length: table.length };
}

/** When each step ended; one without an end lasts until the next one of its rank. @param {Table} steps @param {number} last */
function stepEnds(steps, last) {
  const [begin, end, rank] = ["begin", "end", "rank"].map((name) => steps.get(name));
  return Float64Array.from(end, (each, row) => {
    if (each >= 0) return each;
    const next = rank.findIndex((/** @type {number} */ whose, /** @type {number} */ other) => whose === rank[row] && begin[other] > begin[row]);
    return next < 0 ? last : begin[next];
  });
}

/** The periods of a table that belong to a rank. @param {Table} table @param {ArrayLike<number>} end @param {number} rank */
function whole(table, end, rank) {
  const [begin, whose] = [table.get("begin"), table.get("rank")];
  return nestedRows([...begin.keys()].filter((row) => begin[row] >= 0 && end[row] >= begin[row] && (rank < 0 || whose[row] === rank)), begin, end);
}

/** The moments of a table on some threads. @param {Table} table @param {(thread: number) => boolean} mine */
function moments(table, mine) {
  const [t, thread] = [table.get("t"), table.get("thread")];
  return nestedRows([...t.keys()].filter((row) => t[row] >= 0 && mine(thread[row])), t, t);
}

/** The length of a queue over time. @typedef {{id: number, rank: number, t: number[], value: number[]}} Queue */

/** @param {Model} model @returns {Queue[]} */
function queues(model) {
  const { queue: table } = model.tables;
  /** @type {Map<string, Queue>} */
  const found = new Map();
  const [id, t, value, event] = ["queue", "t", "length", "event"].map((name) => table.get(name));
  const ranks = model.rankOfEvent;
  for (let row = 0; row < table.length; row += 1) {
    if (id[row] < 0) continue;
    const rank = ranks[event[row]] ?? -1;
    const key = `${rank} ${id[row]}`;
    if (!found.has(key)) found.set(key, { id: id[row], rank, t: [], value: [] });
    const queue = /** @type {Queue} */ (found.get(key));
    queue.t.push(t[row]);
    queue.value.push(value[row]);
  }
  return [...found.values()];
}

/** The calls of the forward graph, and after them all others. @param {Table | undefined} calls @param {Table} others */
function callColumns(calls, others) {
  const drawn = calls?.length ?? 0;
  const length = drawn + others.length;
  const [begin, end] = [new Float64Array(length), new Float64Array(length)];
  const [thread, kind] = [new Int32Array(length), new Int32Array(length)];
  const ended = new Uint8Array(length);
  let before = 0;
  for (let id = 0; id < length; id += 1) {
    const [table, row] = calls && id < drawn ? [calls, id] : [others, id - drawn];
    const isData = table === calls && calls.get("is_data")[row] === 1;
    begin[id] = table === others ? others.get("begin")[row] : isData ? -1 : before + calls.get("idle")[row];
    const until = table === others ? others.get("end")[row] : table.get("op_ns")[row] < 0 ? -1 : begin[id] + table.get("op_ns")[row];
    ended[id] = until < 0 ? 0 : 1;
    end[id] = Math.max(until, begin[id]);
    before = end[id];
    thread[id] = table.get("thread")[row];
    kind[id] = table.get("kind")[row];
  }
  return { begin, end, thread, kind, ended, length, drawn };
}

/** The first and the last moment at which something happened. @param {Model} model @param {ReturnType<typeof callColumns>} calls @returns {[number, number]} */
function extentOf(model, calls) {
  const { spans, marks, module_runs: modules, backwards, arrivals } = model.tables;
  const periods = [spans, modules, backwards].flatMap((table) => [table.get("begin"), table.get("end")]);
  let [first, last] = [Infinity, 0];
  for (const column of [model.events.get("t"), calls.begin, calls.end, marks.get("t"), arrivals.get("t"), ...periods]) {
    const [low, high] = lowAndHigh(column);
    [first, last] = [Math.min(first, low), Math.max(last, high)];
  }
  return [Number.isFinite(first) ? first : 0, last];
}

/** The lowest and the highest moment of a column. @param {ArrayLike<number>} column @returns {[number, number]} */
function lowAndHigh(column) {
  let [low, high] = [Infinity, 0];
  for (let at = 0; at < column.length; at += 1) {
    const t = column[at];
    if (t < 0) continue;
    if (t < low) low = t;
    if (t > high) high = t;
  }
  return [low, high];
}
