/** The graph of the earlier trace, next to that of the later one: selection and open groups are linked. */

import { App } from "../core/app.js";
import { Model, Table } from "../core/data.js";

const PREFIX = "before_";
/** Tables that the earlier trace has in the page. */
const BEFORE_TABLES = ["nodes", "edges", "groups", "backwards", "runs", "stacks", "frames"];

/** The earlier trace, without events. @param {Model} main */
export function beforeModel(main) {
  const empty = (/** @type {Table} */ table) => new Table(Object.fromEntries(Object.keys(table.columns).map((name) => [name, new Int32Array(0)])), table.texts);
  /** @type {Record<string, Table>} */
  const tables = Object.fromEntries(Object.entries(main.tables).map(([name, table]) => [name, empty(table)]));
  for (const name of BEFORE_TABLES) tables[name] = main.tables[PREFIX + name];
  for (const name of ["compared", "gone", "calls"]) delete tables[name];
  const model = new Model({ ...main.facts, compared: undefined, lanes: [] }, tables);
  model.nodes.columns.lane = new Int32Array(model.nodes.length).fill(-1);
  model.engineSeen = false;
  return model;
}

/** What differs, seen from the earlier trace: signs on its boxes. */
class ChangesBefore {
  /** @param {Before} before @param {import("../core/changes.js").Changes} changes */
  constructor(before, changes) {
    this.facts = changes.facts;
    const { tree, model } = before;
    this.changed = changes.changedThen;
    this.gone = new Set(before.gone.get("row"));
    for (const node of this.changed.keys()) this.gone.delete(node);
    this.goneIn = new Int32Array(tree.size);
    this.changedIn = new Int32Array(tree.size);
    const group = model.nodes.get("group");
    for (const node of this.gone) if (node >= 0) this.goneIn[group[node]] += 1;
    for (const node of this.changed.keys()) this.changedIn[group[node]] += 1;
    for (let each = tree.size - 1; each > 0; each -= 1) {
      this.goneIn[tree.parent[each]] += this.goneIn[each];
      this.changedIn[tree.parent[each]] += this.changedIn[each];
    }
  }

  /** @param {any} box @returns {string[]} */
  signs(box) {
    const group = box.is === "group";
    const changed = group ? this.changedIn[box.group] > 0 : this.changed.has(box.node);
    const gone = group ? this.goneIn[box.group] > 0 : this.gone.has(box.node);
    return [...changed ? ["≠"] : [], ...gone ? ["−"] : []];
  }
}

/** The state of the earlier graph: it follows the later one, and leads it. */
export class Before extends App {
  /** @param {App} main */
  constructor(main) {
    super(beforeModel(main.model));
    this.main = main;
    const changes = /** @type {import("../core/changes.js").Changes} */ (main.changed);
    this.gone = main.model.tables.gone;
    this.then = /** @type {import("../core/data.js").Column} */ (changes.then);
    /** By node the one of the later trace, or -1. */
    this.nowOf = new Int32Array(this.model.nodes.length).fill(-1);
    this.then.forEach((/** @type {number} */ before, /** @type {number} */ node) => { if (before >= 0) this.nowOf[before] = node; });
    this.changed = /** @type {any} */ (new ChangesBefore(this, changes));
    this.twins = twinsOf(this, main);
    this.groupThen = new Map([...this.twins].map(([before, now]) => [now, before]));
    this.linking = false;
    main.follow((changes) => this.link(() => this.toBefore(changes)));
    this.follow((changes) => this.link(() => this.toMain(changes)));
    this.link(() => this.toBefore(new Set(["backward", "picture", "selection"])));
  }

  /** Do something that is not to be led back. @param {() => void} act */
  link(act) {
    if (this.linking) return;
    this.linking = true;
    act();
    this.flush();
    this.main.flush();
    this.linking = false;
  }

  /** @param {Set<import("../core/app.js").Change>} changes */
  toBefore(changes) {
    const { main } = this;
    if (changes.has("backward")) this.setBackward(this.backwardLike(main, this));
    if (changes.has("picture") || changes.has("backward")) this.openLike(main, this, (group) => this.twins.get(group) ?? -1);
    if (changes.has("look")) [this.coloring, this.critical] = [main.coloring === "slower" ? "kind" : main.coloring, false];
    if (changes.has("look")) this.tell("look");
    if (!changes.has("selection")) return;
    const group = main.group >= 0 ? this.groupThen.get(main.group) ?? -1 : -1;
    if (main.node >= 0 && this.then[main.node] >= 0) this.selectNode(this.then[main.node]);
    else if (group >= 0) this.selectGroup(group);
    else this.deselect();
    this.tell("selection");
  }

  /** @param {Set<import("../core/app.js").Change>} changes */
  toMain(changes) {
    const { main } = this;
    if (changes.has("picture")) this.openLike(this, main, (group) => this.groupThen.get(group) ?? -1);
    if (!changes.has("selection")) return;
    const group = this.group >= 0 ? this.twins.get(this.group) ?? -1 : -1;
    if (this.node >= 0 && this.nowOf[this.node] >= 0) main.selectNode(this.nowOf[this.node]);
    else if (group >= 0) main.selectGroup(group);
    else main.deselect();
    main.tell("selection");
  }

  /** The backward of the same step and place in it; all, where there is none. @param {App} from @param {App} to */
  backwardLike(from, to) {
    if (from.backward < 0) return -1;
    const place = (/** @type {App} */ app, /** @type {number} */ row) => {
      const step = app.model.backwards.get("step");
      return `${step[row]} ${[...step.subarray(0, row)].filter((each) => each === step[row]).length}`;
    };
    const wanted = place(from, from.backward);
    return [...to.model.backwards.get("step").keys()].findIndex((row) => place(to, row) === wanted);
  }

  /** Open and fold the groups that both have as in the other graph. @param {App} from @param {App} to @param {(group: number) => number} twin of a group of the one that follows */
  openLike(from, to, twin) {
    let changed = false;
    for (let group = 0; group < to.tree.size; group += 1) {
      if (!to.tree.contains(to.root, group) || group === to.root) continue;
      const other = twin(group);
      if (other < 0 || !from.tree.contains(from.root, other) || from.open.has(other) === to.open.has(group)) continue;
      if (from.open.has(other)) to.open.add(group);
      else to.open.delete(group);
      changed = true;
    }
    if (!changed) return;
    to.draw();
    to.tell("picture");
  }
}

/** By group of the earlier trace the one with the same place in the later trace. @param {App} before @param {App} main @returns {Map<number, number>} */
function twinsOf(before, main) {
  const known = new Map(keysOf(main).map((key, group) => [key, group]));
  const found = new Map();
  keysOf(before).forEach((key, group) => {
    const twin = known.get(key);
    if (twin !== undefined) found.set(group, twin);
  });
  return found;
}

/** What names each group: its path, or its title, in the group around it. @param {App} app @returns {string[]} */
function keysOf(app) {
  const { tree, model } = app;
  /** @type {string[]} */
  const keys = [];
  const seen = new Map();
  for (let group = 0; group < tree.size; group += 1) {
    const name = `${tree.form[group]} ${model.groups.text("path", group) || tree.title(group)}`;
    const key = group ? `${keys[tree.parent[group]]}/${name}` : "";
    const times = seen.get(key) ?? 0;
    seen.set(key, times + 1);
    keys.push(times ? `${key}#${times}` : key);
  }
  return keys;
}
