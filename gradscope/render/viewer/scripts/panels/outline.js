/** The outline: a tree of all groups and nodes, usable with mouse, keyboard and screen readers. */

import { GLYPHS, WORDS } from "../core/state.js";
import { count, duration } from "../core/words.js";

/** @typedef {import("../core/app.js").App} App */

/** An element with a class and text. @param {string} tag @param {string} [name] @param {string} [text] */
export function made(tag, name, text) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text !== undefined) element.textContent = text;
  return element;
}

/** Names, each with a value. @param {Iterable<[string, string | Node]>} pairs */
export function definitions(pairs) {
  const list = made("dl");
  for (const [name, value] of pairs) {
    const said = made("dd");
    said.append(value);
    list.append(made("dt", "", name), said);
  }
  return list;
}

/** A button that looks like a link. @param {string} text @param {() => void} act */
export function link(text, act) {
  const button = /** @type {HTMLButtonElement} */ (made("button", "link", text));
  button.type = "button";
  button.addEventListener("click", act);
  return button;
}

const AT_ONCE = 200;

/** A list of things; at first `most` of them, with a button for more. @template T @param {Iterable<T>} things @param {(thing: T) => (string | Node)[]} show @param {number} most @param {string} [name] the class of its items */
export function listed(things, show, most, name = "") {
  const all = [...things];
  const list = made("ul", "plain");
  const add = (/** @type {number} */ from, /** @type {number} */ to) => {
    for (const each of all.slice(from, to)) {
      const item = made("li", name);
      item.append(...show(each));
      list.append(item);
    }
    if (all.length <= to) return;
    const rest = made("li");
    rest.append(link(`⋯ ${count(all.length - to)} more`, () => {
      rest.remove();
      add(to, to + AT_ONCE);
      list.children[to].querySelector("button")?.focus();
    }));
    list.append(rest);
  };
  add(0, most);
  return list;
}

/** A square in the colour of a kind. @param {number} kind @param {boolean} [leaf] */
export function chip(kind, leaf) {
  const element = made("span", leaf ? "chip leaf" : "chip");
  element.style.background = `var(--kind-${kind}-fill)`;
  element.style.borderColor = `var(--kind-${kind}-line)`;
  return element;
}

/** The tree on the left. */
export class Outline {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.element = /** @type {HTMLElement} */ (document.getElementById("outline"));
    this.expanded = new Set();
    /** @type {Map<string, HTMLElement>} */
    this.items = new Map();
    this.element.addEventListener("click", (event) => this.click(event));
    this.element.addEventListener("dblclick", (event) => this.twist(this.itemAt(event)));
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.followed = new Set();
    this.turnTo(app);
  }

  /** Show this graph. @param {App} app */
  turnTo(app) {
    this.app = app;
    if (!this.followed.has(app)) app.follow((changes) => { if (this.app === app) this.update(changes); });
    this.followed.add(app);
    this.build();
    this.showSelection();
  }

  build() {
    const { app } = this;
    this.items.clear();
    this.element.replaceChildren();
    this.expanded = new Set([app.root, ...app.open].filter((group) => group >= 0 && (app.tree.around(group).length < 4 || group === app.root)));
    this.element.append(this.groupItem(app.root, 1));
    this.focusable = this.element.firstElementChild;
    this.focusable?.setAttribute("tabindex", "0");
    this.showStates();
  }

  /** @param {number} group @param {number} level */
  groupItem(group, level) {
    const { tree } = this.app;
    const item = this.item(`g${group}`, level);
    const row = /** @type {HTMLElement} */ (item.firstElementChild);
    row.append(made("span", "twist", "▸"), made("span", tree.alarms[group] ? "name alarm" : "name", tree.title(group)));
    if (tree.ns[group] > 0) row.append(made("span", "much", duration(tree.ns[group])));
    item.setAttribute("aria-expanded", "false");
    if (this.expanded.has(group)) this.expand(item, group, level);
    return item;
  }

  /** @param {number} node @param {number} level @param {number} group where it stands: a leaf, in each of several steps */
  nodeItem(node, level, group) {
    const { model, tree } = this.app;
    const item = this.item(group === this.app.homeOf(node) ? `n${node}` : `n${node} in ${group}`, level);
    const row = /** @type {HTMLElement} */ (item.firstElementChild);
    const leaf = model.isLeaf(node);
    row.append(chip(model.nodes.get("kind")[node], leaf), made("span", "name", model.title(node)));
    if (tree.nodeNs[node] > 0 && !leaf) row.append(made("span", "much", duration(tree.nodeNs[node])));
    row.append(made("span", "state"));
    return item;
  }

  /** @param {string} key @param {number} level */
  item(key, level) {
    const item = made("li");
    item.setAttribute("role", "treeitem");
    item.setAttribute("aria-level", String(level));
    item.setAttribute("aria-selected", "false");
    item.tabIndex = -1;
    item.dataset.key = key;
    item.append(made("div", "row"));
    this.items.set(key, item);
    return item;
  }

  /** @param {HTMLElement} item @param {number} group @param {number} level */
  expand(item, group, level) {
    if (item.getAttribute("aria-expanded") === "true") return;
    this.expanded.add(group);
    item.setAttribute("aria-expanded", "true");
    /** @type {HTMLElement} */ (item.querySelector(".twist")).textContent = "▾";
    const list = made("ul");
    list.setAttribute("role", "group");
    for (const part of this.app.tree.parts(group)) {
      list.append(part.group === undefined ? this.nodeItem(/** @type {number} */ (part.node), level + 1, group) : this.groupItem(part.group, level + 1));
    }
    item.append(list);
  }

  /** @param {HTMLElement} item @param {number} group */
  fold(item, group) {
    this.expanded.delete(group);
    item.setAttribute("aria-expanded", "false");
    /** @type {HTMLElement} */ (item.querySelector(".twist")).textContent = "▸";
    const list = item.querySelector("[role=group]");
    for (const each of list?.querySelectorAll("[role=treeitem]") ?? []) {
      const { key } = /** @type {HTMLElement} */ (each).dataset;
      this.items.delete(key ?? "");
      if (key?.startsWith("g")) this.expanded.delete(Number(key.slice(1)));
    }
    list?.remove();
  }

  /** @param {HTMLElement | null} item */
  twist(item) {
    const key = item?.dataset.key ?? "";
    if (!item || !key.startsWith("g")) return;
    const group = Number(key.slice(1));
    if (item.getAttribute("aria-expanded") === "true") this.fold(item, group);
    else this.expand(item, group, Number(item.getAttribute("aria-level")));
    this.showStates();
  }

  /** @param {Event} event @returns {HTMLElement | null} */
  itemAt(event) {
    return /** @type {HTMLElement} */ (event.target).closest("[role=treeitem]");
  }

  /** @param {MouseEvent} event */
  click(event) {
    const item = this.itemAt(event);
    if (!item) return;
    if (/** @type {HTMLElement} */ (event.target).className === "twist") this.twist(item);
    else this.choose(item);
  }

  /** @param {HTMLElement} item */
  choose(item) {
    const key = item.dataset.key ?? "";
    const id = Number.parseInt(key.slice(1), 10);
    this.focus(item);
    if (key.startsWith("g")) this.app.selectGroup(id);
    else this.app.selectNode(id);
  }

  /** @param {Element | null | undefined} item */
  focus(item) {
    if (!(item instanceof HTMLElement)) return;
    this.focusable?.setAttribute("tabindex", "-1");
    this.focusable = item;
    item.tabIndex = 0;
    item.focus({ preventScroll: true });
    item.firstElementChild?.scrollIntoView({ block: "nearest" });
  }

  /** The usual keys of trees. @param {KeyboardEvent} event */
  key(event) {
    const item = this.itemAt(event);
    if (!item || event.ctrlKey || event.metaKey || event.altKey) return;
    const seen = [...this.element.querySelectorAll("[role=treeitem]")];
    const at = seen.indexOf(item);
    const open = item.getAttribute("aria-expanded");
    const acts = /** @type {Record<string, () => void>} */ ({
      ArrowDown: () => this.focus(seen[at + 1]),
      ArrowUp: () => this.focus(seen[at - 1]),
      Home: () => this.focus(seen[0]),
      End: () => this.focus(seen[seen.length - 1]),
      ArrowRight: () => (open === "false" ? this.twist(item) : open === "true" && this.focus(seen[at + 1])),
      ArrowLeft: () => (open === "true" ? this.twist(item) : this.focus(item.parentElement?.closest("[role=treeitem]"))),
      Enter: () => this.choose(item),
      " ": () => this.choose(item),
    });
    const act = acts[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  /** @param {Set<import("../core/app.js").Change>} changes */
  update(changes) {
    if (changes.has("backward")) this.build();
    if (changes.has("selection") || changes.has("backward")) this.showSelection();
    if (changes.has("event")) this.showStates();
  }

  /** Open the tree down to the selection. */
  showSelection() {
    const { app } = this;
    for (const each of this.element.querySelectorAll("[aria-selected=true]")) each.setAttribute("aria-selected", "false");
    const key = app.node >= 0 ? `n${app.node}` : app.group >= 0 ? `g${app.group}` : "";
    if (!key) return;
    const inside = app.node >= 0 ? app.homeOf(app.node) : app.tree.parent[app.group];
    for (const group of app.tree.around(inside).reverse()) {
      const item = this.items.get(`g${group}`);
      if (item) this.expand(item, group, Number(item.getAttribute("aria-level")));
    }
    const item = this.items.get(key);
    if (!item) return;
    item.setAttribute("aria-selected", "true");
    if (this.focusable !== item && !this.element.contains(document.activeElement)) {
      this.focusable?.setAttribute("tabindex", "-1");
      this.focusable = item;
      item.tabIndex = 0;
    }
    item.firstElementChild?.scrollIntoView({ block: "nearest" });
    this.showStates();
  }

  showStates() {
    const { app } = this;
    if (!app.model.engineSeen) return;
    for (const [key, item] of this.items) {
      if (!key.startsWith("n")) continue;
      const node = Number.parseInt(key.slice(1), 10);
      if (!app.states.has(node)) continue;
      const state = app.states.of[node];
      const sign = /** @type {HTMLElement} */ (item.querySelector(".state"));
      if (sign.textContent === GLYPHS[state]) continue;
      sign.textContent = GLYPHS[state];
      sign.title = WORDS[state];
      sign.className = `state ${WORDS[state].replace(" ", "-")}`;
    }
  }
}
