/** The forward graph, in the same page as the backward, with a shared selection. */

import { App } from "./app.js";
import { plain, saidIn } from "./fragment.js";
import { Model, Table, ordinalsOf } from "./data.js";
import { DONE, States } from "./state.js";
import { MODULE } from "./tree.js";

/** Stands for a stack: the one of the node that the call created. */
const SAME_STACK = -2;

/** Calls in place of nodes, and what they were given in place of where gradients go. @param {Model} main */
export function forwardModel(main) {
  const { tables } = main;
  const { calls, flows, call_groups: groups } = tables;
  const took = calls.get("op_ns");
  const rows = Int32Array.from(calls.get("id").keys());
  const none = new Int32Array(rows.length).fill(-1);
  calls.columns.stack = Int32Array.from(calls.get("stack"), (stack, row) => (stack === SAME_STACK ? main.nodes.get("stack")[calls.get("made")[row]] : stack));
  calls.columns.ordinal = ordinalsOf(calls, false);
  calls.columns.region = Int32Array.from(calls.get("made"), (node) => (node < 0 ? -1 : main.nodes.get("region")[node]));
  const runs = new Table({ node: rows, self_ns: took, position: none, thread: none, queue: none, after: none, backward: none, pushed: none, begun: none, ended: none, failed: none }, []);
  const empty = (/** @type {Table} */ table) => new Table(Object.fromEntries(Object.keys(table.columns).map((name) => [name, new Int32Array(0)])), table.texts);
  const { compared } = main.facts;
  const model = new Model({ ...main.facts, compared: compared && { ...compared, timed: true } }, {
    ...tables, nodes: calls, edges: flows, groups, runs, compared: tables.compared_calls, gone: tables.gone_calls,
    findings: empty(tables.findings), saved: empty(tables.saved), values: empty(tables.values), hooks: empty(tables.hooks),
  });
  model.isForward = true;
  model.someMade = calls.get("made").some((/** @type {number} */ node) => node >= 0);
  model.engineSeen = main.engineSeen;
  model.readySeen = main.readySeen;
  calls.get("made").forEach((/** @type {number} */ node, /** @type {number} */ call) => { if (node >= 0) model.wrong[call] = main.wrong[node]; });
  return model;
}

/** Where the nodes that calls made are in the backward. */
class StatesOfCalls extends States {
  /** @param {Model} model @param {States} main */
  constructor(model, main) {
    super(model);
    this.main = main;
  }

  /** @param {number} event @param {number} backward */
  go(event, backward) {
    const made = this.model.nodes.get("made");
    for (let call = 0; call < this.of.length; call += 1) this.of[call] = made[call] < 0 ? DONE : this.main.of[made[call]];
    this.at = event;
    this.backward = backward;
  }

  /** @param {number} call @returns {[number, number]} */
  gradients(call) {
    const made = this.model.nodes.get("made")[call];
    return made < 0 ? [0, 0] : this.main.gradients(made);
  }

  /** @param {number} call */
  has(call) {
    return this.model.nodes.get("made")[call] >= 0;
  }
}

/** The state of the forward graph. */
export class Forward extends App {
  /** @param {App} main */
  constructor(main) {
    const model = forwardModel(main.model);
    super(model, new StatesOfCalls(model, main.states));
    this.main = main;
  }

  /** @param {number} call */
  runOf(call) {
    return this.model.nodes.get("op_ns")[call] >= 0 ? call : -1;
  }

  /** @param {number} call */
  nsOf(call) {
    return Math.max(this.model.runs.get("self_ns")[call], 0);
  }

  /** @param {number} call @param {"takes" | "gives"} way */
  edgesOf(call, way) {
    const tail = this.model.edges.get("tail");
    return [...this.model[way].of(call)].filter((edge) => this.tree.contains(this.root, this.tree.of[tail[edge]]));
  }
}

/** Both graphs: which one is shown, and what is selected in the other when something is in one. */
export class Graphs {
  /** @param {App} main */
  constructor(main) {
    this.main = main;
    /** @type {Forward | null} made when it is first asked for */
    this.forward = null;
    /** @type {App} */
    this.shown = main;
    /** @type {((app: App) => void)[]} */
    this.listeners = [];
    this.isThere = Boolean(main.model.tables.calls);
    main.follow((changes) => this.lead(changes));
  }

  /** Show one of the two. @param {boolean} forward */
  show(forward) {
    if (!this.isThere || forward === (this.shown !== this.main)) return;
    if (forward && !this.forward) this.begin();
    this.shown = forward && this.forward ? this.forward : this.main;
    if (forward) this.toForward(true);
    for (const listener of this.listeners) listener(this.shown);
    this.main.tell("look");
  }

  begin() {
    const made = new Forward(this.main);
    made.rank = this.main.rank;
    made.setBackward(this.main.backward, true);
    made.view = this.main.view;
    made.follow((changes) => { if (changes.has("selection")) this.toBackward(); });
    this.forward = made;
  }

  /** What happens in the page as a whole holds for the forward graph, too. @param {Set<import("./app.js").Change>} changes */
  lead(changes) {
    const { forward, main } = this;
    if (!forward) return;
    if (changes.has("backward")) {
      forward.rank = main.rank;
      forward.setBackward(main.backward);
    }
    forward.event = main.event;
    forward.t = main.t;
    forward.range = main.range;
    forward.coloring = main.coloring;
    forward.shapes = main.shapes;
    if (changes.has("selection")) this.toForward(false);
    forward.tell(...[...changes].filter((each) => each === "event" || each === "look" || each === "range"));
  }

  /** The row of the call that a node was made by, or of the data that a leaf is; -1 where none is known. @param {number} node */
  callOf(node) {
    const { calls } = this.main.model.tables;
    const leaf = this.main.model.nodes.text("leaf", node);
    const call = calls.get("made").indexOf(node);
    if (call >= 0 || !leaf) return call;
    return calls.get("leaf").indexOf(this.main.model.nodes.get("leaf")[node]);
  }

  /** The node that a call made, or the leaf that data is; -1 where there is none. @param {number} call */
  nodeOf(call) {
    const { calls } = this.main.model.tables;
    const made = calls.get("made")[call];
    if (made >= 0 || !calls.get("is_leaf")[call]) return made;
    const { leaf, is_leaf: isLeaf } = this.main.model.nodes.columns;
    const name = calls.get("leaf")[call];
    return calls.text("leaf", call) === "data" ? -1 : leaf.findIndex((/** @type {number} */ each, /** @type {number} */ node) => each === name && isLeaf[node] === 1);
  }

  /** The call that is selected in the graph shown; -1 for none, and in the backward. */
  get call() {
    return this.forward && this.shown === this.forward ? this.forward.node : -1;
  }

  // The address ------------------------------------------------------------------------------

  /** @returns {string} what is shown of the forward graph, where that is shown */
  get fragment() {
    const { forward } = this;
    if (!forward || this.shown !== forward) return "";
    const parts = ["v=forward"];
    if (forward.node >= 0 && this.nodeOf(forward.node) < 0) parts.push(`c=${encodeURIComponent(forward.model.title(forward.node))}`);
    if (forward.flipped) parts.push(`co=${forward.flipped}`);
    return parts.join("&");
  }

  /** @param {string} fragment */
  restore(fragment) {
    const said = saidIn(fragment);
    this.show(said.get("v") === "forward");
    const { forward } = this;
    if (!forward || this.shown !== forward) return;
    forward.flip(said.get("co") ?? "");
    const name = plain(said.get("c"));
    const call = name ? forward.model.titled(name) : -1;
    if (call >= 0) forward.selectNode(call);
  }

  // One selection ----------------------------------------------------------------------------

  /** @param {boolean} always also where it is selected already */
  toForward(always) {
    const { forward, main } = this;
    if (!forward) return;
    if (main.node >= 0) {
      const call = this.callOf(main.node);
      if (call < 0) forward.deselect();
      else if (always || this.nodeOf(forward.node) !== main.node) forward.selectNode(call);
    } else if (main.group >= 0) {
      const group = twin(main, forward);
      if (group < 0) forward.deselect();
      else if (always || forward.group !== group) forward.showGroup(group);
    } else if (forward.node >= 0 && this.nodeOf(forward.node) >= 0 || forward.group >= 0 && twin(forward, main) >= 0) forward.deselect();
  }

  toBackward() {
    const { forward, main } = this;
    if (!forward || this.shown !== forward) return;
    const node = forward.node >= 0 ? this.nodeOf(forward.node) : -1;
    const group = forward.group >= 0 ? twin(forward, main) : -1;
    if (node >= 0) {
      if (main.node !== node) main.selectNode(node);
    } else if (group >= 0) {
      if (main.group !== group) main.showGroup(group);
    } else {
      main.deselect();
      main.tell("selection");
    }
  }
}

/** The module in the other graph that is selected in one: by its path, in what is shown there. @param {App} from @param {App} to */
function twin(from, to) {
  const path = from.model.groups.text("path", from.group);
  if (!path) return -1;
  for (let group = to.root; group < to.tree.size; group += 1) {
    if (to.tree.form[group] === MODULE && to.model.groups.text("path", group) === path && to.tree.contains(to.root, group)) return group;
  }
  return -1;
}
