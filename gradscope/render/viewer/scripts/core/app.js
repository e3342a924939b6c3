/** The state of the page: selection, open groups and position; panels and the address follow it. */

import { Changes } from "./changes.js";
import { flippedIn, partsIn, plain, saidIn } from "./fragment.js";
import { States } from "./state.js";
import { STEP, Tree } from "./tree.js";
import { Picture, legibleGroups, withInsides } from "./picture.js";

/** @typedef {import("./data.js").Model} Model */

/**
 * What changed, for panels to look at.
 * @typedef {"selection" | "event" | "picture" | "backward" | "look" | "range" | "window"} Change
 */

/** The page's state. */
export class App {
  /** @param {Model} model @param {States} [states] */
  constructor(model, states = new States(model)) {
    this.model = model;
    this.tree = new Tree(model);
    this.states = states;
    /** @type {Changes | null} what differs from the trace that this one is held against */
    this.changed = model.tables.compared ? new Changes(model, this.tree) : null;
    /** @type {((changes: Set<Change>) => void)[]} */
    this.listeners = [];
    /** @type {Set<Change>} */
    this.changes = new Set();
    this.waiting = 0;
    this.node = -1;
    this.group = -1;
    this.backward = -1;
    /** The rank shown, of a merged trace; -1 otherwise. */
    this.rank = model.facts.ranks[0] ?? -1;
    this.root = 0;
    /** @type {Set<number>} open groups and, as ~node, nodes whose inside is shown */
    this.open = new Set();
    /** @type {Map<number, Set<number>>} by root, what is open at first */
    this.usuals = new Map();
    /** The axis of time, from which moments are counted. @type {{least: number, most: number}} */
    this.axis = { least: 0, most: 1 };
    /** The moment that the playhead is at, and the last event at or before it. */
    this.t = 0;
    this.event = 0;
    this.critical = false;
    /** The nodes and the arrows of the critical path. */
    this.criticalNodes = new Set();
    this.criticalKeys = new Set();
    /** @type {any} the part of the picture that is seen */
    this.view = null;
    this.coloring = "kind";
    /** Whether arrows say the shapes of what they carry. */
    this.shapes = false;
    /** @type {[number, number] | null} a stretch of time that dims all else */
    this.range = null;
    /** @type {any} */
    this.picture = null;
    /** @type {import("../comparing/ghosts.js").Ghosts | null} nodes that only an earlier trace has, where they are drawn */
    this.ghosts = null;
    /** @type {((row: number) => void) | null} what a click on one of these does */
    this.choseGhost = null;
    this.centre = false;
    this.setBackward(this.firstBackward(), true);
  }

  /** Of several steps of the rank the first; else everything. */
  firstBackward() {
    const rows = this.model.backwardsOf(this.rank);
    const steps = new Set(rows.map((row) => this.model.backwards.get("step")[row]));
    return rows.length === 1 || steps.size > 1 ? rows[0] : -1;
  }

  /** @param {(changes: Set<Change>) => void} listener */
  follow(listener) {
    this.listeners.push(listener);
  }

  /** Tell the panels, before the next frame. @param {...Change} changes */
  tell(...changes) {
    for (const each of changes) this.changes.add(each);
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => this.flush());
  }

  flush() {
    cancelAnimationFrame(this.waiting);
    this.waiting = 0;
    const changes = this.changes;
    this.changes = new Set();
    this.states.go(this.event, this.backward);
    for (const listener of this.listeners) listener(changes);
  }

  /** @returns {[number, number]} */
  get events() {
    return this.states.range(this.backward, this.rank);
  }

  /** Show one backward, or all of the rank. @param {number} backward @param {boolean} [quietly] */
  setBackward(backward, quietly) {
    this.backward = backward;
    if (backward >= 0) this.rank = this.model.backwards.get("rank")[backward];
    const root = this.tree.rootOf(backward, this.rank);
    if (root !== this.root || !this.open.size) {
      this.root = root;
      this.open = this.usual(root);
    }
    this.toEnd();
    this.range = null;
    this.states.go(this.event, this.backward);
    this.draw();
    if (!quietly) this.tell("backward", "picture", "event", "range");
  }

  /** Show another rank: the same backward of the same step, as far as that rank has it. @param {number} rank */
  setRank(rank) {
    const { model } = this;
    const step = model.backwards.get("step");
    const alike = (/** @type {number} */ whose) => model.backwardsOf(whose).filter((row) => step[row] === step[this.backward]);
    const [here, there] = [alike(this.rank), alike(rank)];
    this.rank = rank;
    const place = Math.min(here.indexOf(this.backward), there.length - 1);
    this.deselect();
    this.setBackward(this.backward < 0 ? -1 : there[place] ?? this.firstBackward());
    this.tell("selection");
  }

  /** Show the next backward of the rank, or the one before; before the first stand all. @param {number} way */
  turnBackward(way) {
    const rows = this.model.backwardsOf(this.rank);
    const at = rows.indexOf(this.backward) + way;
    this.setBackward(rows[Math.min(at, rows.length - 1)] ?? (rows.length > 1 ? -1 : this.backward));
  }

  /** Whether what is shown contains a backward. @param {number} backward */
  covers(backward) {
    return this.backward < 0 ? this.model.backwards.get("rank")[backward] === this.rank : this.backward === backward;
  }

  /** What is open at first: as much as leaves titles legible in the room there is. @param {number} root */
  usual(root) {
    if (!this.usuals.has(root)) {
      const model = this.tree.modelOf(root);
      const groups = model === root ? legibleGroups(this.tree, root) : [...this.usual(model)].filter((each) => each >= 0).map((each) => each - model + root);
      this.usuals.set(root, withInsides(this.tree, root, new Set(groups)));
    }
    return new Set(this.usuals.get(root));
  }

  draw() {
    this.picture = new Picture(this.model, this.tree, this.root, this.open, this.ghosts);
  }

  /** @param {number} node @param {boolean} [centre] */
  selectNode(node, centre = true) {
    if (node < 0) return;
    const ran = (/** @type {number} */ each) => this.backward >= 0 && this.runOf(each) >= 0;
    const home = this.homeOf(node);
    const user = [...this.tree.users.get(node)?.values() ?? []].find(ran);
    this.reveal(user === undefined || this.tree.contains(this.root, home) ? home : this.tree.of[user], ran(node));
    [this.node, this.group, this.centre] = [node, -1, centre];
    this.tell("selection");
  }

  /** @param {number} group @param {boolean} [centre] */
  selectGroup(group, centre = true) {
    this.reveal(this.tree.parent[group]);
    [this.node, this.group, this.centre] = [-1, group, centre];
    this.tell("selection");
  }

  /** Select a group, and open what is around it, so that it is seen. @param {number} group */
  showGroup(group) {
    this.selectGroup(group);
    for (const each of this.tree.around(this.tree.parent[group])) this.open.add(each);
    this.draw();
    this.tell("picture");
  }

  /** Select nothing. */
  deselect() {
    [this.node, this.group] = [-1, -1];
  }

  clear() {
    this.deselect();
    this.range = null;
    this.tell("selection", "range");
  }

  /** Show the step that a group is in, if another one is shown. @param {number} group @param {boolean} [stay] with the backward shown, which ran what another step had made */
  reveal(group, stay = false) {
    if (group < 0 || this.tree.contains(this.root, group)) return;
    const { tree, model } = this;
    const step = tree.around(group).find((each) => tree.form[each] === STEP);
    const rank = model.groups.get("rank")[group];
    this.root = step ?? tree.ranks.get(rank) ?? 0;
    this.open = this.usual(this.root);
    if (!stay) {
      this.rank = rank;
      this.backward = model.backwardsOf(rank).find((row) => tree.stepOfBackward(row) === step) ?? -1;
      this.toEnd();
    }
    this.draw();
    this.tell("backward", "picture", "event");
  }

  /** Open or fold a group or, with ~node, the inside of a node. @param {number} part */
  toggle(part) {
    if (part === this.root) return;
    if (this.open.delete(part)) {
      for (const each of [...this.open]) if (part >= 0 && this.tree.contains(part, each)) this.open.delete(each);
    } else this.openPart(part);
    this.draw();
    this.tell("picture");
  }

  /** @param {number} part a group, or ~node for the inside of a node */
  openPart(part) {
    if (part < 0) this.open.add(part);
    for (const each of this.tree.around(part < 0 ? this.homeOf(~part) : part)) this.open.add(each);
  }

  /** Open what is around a node, so that it has a box of its own. @param {number} node */
  unfold(node) {
    for (const each of this.tree.around(this.homeOf(node))) this.open.add(each);
    this.draw();
    this.tell("picture");
  }

  /** The next node that a source line made, after the one that is selected. @param {number} frame */
  selectLine(frame) {
    const { model } = this;
    const same = (/** @type {number} */ node) => model.frames(model.nodes.get("stack")[node]).includes(frame);
    const length = model.nodes.length;
    for (let away = 1; away <= length; away += 1) {
      const node = (Math.max(this.node, -1) + away) % length;
      if (!model.isLeaf(node) && this.tree.contains(this.root, model.nodes.get("group")[node]) && same(node)) {
        this.selectNode(node);
        return;
      }
    }
  }

  /** The group that a node stands in, in what is shown. @param {number} node */
  homeOf(node) {
    return this.tree.homeOf(node, this.root);
  }

  /** Along which edges gradients came to a node, or went: in the backward shown, where that ran it. @param {number} node @param {"takes" | "gives"} way */
  edgesOf(node, way) {
    const { model, tree, backward } = this;
    const tail = model.edges.get("tail");
    const edges = [...model[way].of(node)];
    if (backward >= 0 && this.runOf(node) >= 0) return edges.filter((edge) => this.runOf(tail[edge]) >= 0);
    return edges.filter((edge) => tree.contains(this.root, this.homeOf(tail[edge])));
  }

  foldAll() {
    this.open = this.open.size > 1 ? new Set([this.root]) : this.usual(this.root);
    this.draw();
    this.tell("picture");
  }

  /** Go to an event of those shown. @param {number} event */
  go(event) {
    const [first, last] = this.events;
    this.event = Math.min(Math.max(event, first), last);
    this.t = this.timeOf(this.event);
    this.tell("event");
  }

  /** Go to a moment. Before the first event shown, the event is the one before that. @param {number} t */
  goTo(t) {
    const times = this.model.events.get("t");
    const [first, last] = this.events;
    let [low, high] = [times.length ? first - 1 : last, last];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (times[middle] <= t) low = middle;
      else high = middle - 1;
    }
    [this.t, this.event] = [t, low];
    this.tell("event");
  }

  /** Go to the next event, or to the one before: each is visited, also where several are at one time. @param {1 | -1} step */
  turn(step) {
    const between = this.t > this.timeOf(this.event);
    if (step > 0 || this.event >= this.events[0]) this.go(step < 0 && between ? this.event : this.event + step);
  }

  toEnd() {
    this.event = this.events[1];
    this.t = this.timeOf(this.event);
  }

  /** @param {number} event */
  timeOf(event) {
    return this.model.events.get("t")[event] ?? 0;
  }

  /** The group of a module in what is shown; -1 for none. @param {string} path */
  groupAt(path) {
    const { tree, model } = this;
    for (let group = path ? this.root : tree.size; group < tree.size; group += 1) {
      if (model.groups.text("path", group) === path && tree.contains(this.root, group)) return group;
    }
    return -1;
  }

  /** The run of a node in what is shown: of several the one around the event. @param {number} node */
  runOf(node) {
    const { runs } = this.model;
    let found = -1;
    for (const run of this.model.runsOf.of(node)) {
      if (this.backward >= 0 && runs.get("backward")[run] !== this.backward) continue;
      if (found < 0 || runs.get("begun")[run] <= this.event) found = run;
    }
    return found;
  }

  /** How long a node ran in what is shown. @param {number} node */
  nsOf(node) {
    const { runs } = this.model;
    const here = [...this.model.runsOf.of(node)].filter((run) => this.backward < 0 || runs.get("backward")[run] === this.backward);
    return here.reduce((sum, run) => sum + Math.max(runs.get("self_ns")[run], 0), 0);
  }

  /** The place of an event among those of the backward shown; of all, where all are. @param {number} event */
  eventNumber(event) {
    return event - this.events[0] + 1;
  }

  // The address ------------------------------------------------------------------------------

  /** @returns {string} what is shown, as a fragment of the address */
  get fragment() {
    const parts = [];
    const [, last] = this.events;
    if (this.rank >= 0) parts.push(`r=${this.rank}`);
    if (this.backward !== this.firstBackward()) parts.push(`b=${this.backward}`);
    if (this.t !== this.timeOf(this.event)) parts.push(`t=${Math.round(this.t)}`);
    else if (this.event !== last) parts.push(`e=${this.event}`);
    if (this.node >= 0) parts.push(`n=${encodeURIComponent(this.model.unique(this.node))}`);
    if (this.group >= 0) parts.push(`g=${this.group}`);
    if (this.flipped) parts.push(`o=${this.flipped}`);
    return parts.join("&");
  }

  /** What is open that is not at first, and what is not that is. */
  get flipped() {
    return flippedIn(this.usual(this.root), this.open, this.root);
  }

  /** @param {string} flipped */
  flip(flipped) {
    for (const { part, shut } of partsIn(flipped)) {
      if (part < 0 ? !this.tree.insides.has(~part) : !(part > 0 && part < this.tree.size)) continue;
      if (shut) this.open.delete(part);
      else this.openPart(part);
    }
    this.draw();
    this.tell("picture", "backward");
  }

  /** Show what a fragment says; what it says of another trace is left out. @param {string} fragment */
  restore(fragment) {
    const said = saidIn(fragment);
    const number = (/** @type {string} */ key) => (/^-?\d+$/.test(said.get(key) ?? "") ? Number(said.get(key)) : NaN);
    const backward = number("b");
    if (this.tree.ranks.has(number("r")) && number("r") !== this.rank) this.setRank(number("r"));
    if (backward >= -1 && backward < this.model.backwards.length) this.setBackward(backward);
    this.flip(said.get("o") ?? "");
    if (number("g") > 0 && number("g") < this.tree.size) this.selectGroup(number("g"));
    const name = plain(said.get("n"));
    if (name) this.selectNode(this.model.nodeNamed(name));
    if (number("e") >= 0) this.go(number("e"));
    else if (number("t") >= 0) this.goTo(number("t"));
  }
}
