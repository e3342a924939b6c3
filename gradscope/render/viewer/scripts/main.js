/** The start of the page: unpack the trace, create the panels, follow the address. */

import { App } from "./core/app.js";
import { saidIn } from "./core/fragment.js";
import { Graphs } from "./core/forward.js";
import { unpack } from "./core/data.js";
import { Compared } from "./comparing/compared.js";
import { Details } from "./details/details.js";
import { GraphPanel } from "./panels/graph.js";
import { HoverCard } from "./panels/hover_card.js";
import { Keys } from "./panels/keys.js";
import { Findings, Slowest } from "./panels/lists.js";
import { Outline, made } from "./panels/outline.js";
import { Legend } from "./panels/legend.js";
import { Menus } from "./ranks/menus.js";
import { RankLanes } from "./ranks/rank_lanes.js";
import { Colours } from "./paint/paint.js";
import { keyOf } from "./core/picture.js";
import { Memory } from "./panels/memory.js";
import { Search } from "./panels/search.js";
import { Share } from "./panels/share.js";
import { splitSides } from "./panels/splitters.js";
import { Summary } from "./panels/summary.js";
import { Timeline } from "./time/timeline.js";
import { Sides } from "./comparing/sides.js";

const element = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));
const TABS = ["summary", "outline", "findings", "slowest", "memory"];
const LOOKS = ["", "light", "dark"];

/** Show an error instead of the page. @param {string} reason */
function fail(reason) {
  document.body.replaceChildren(made("p", "failure", reason));
}

/** @param {App} app @param {Colours} colours */
function dress(app, colours) {
  const { facts } = app.model;
  const name = app.changed ? app.changed.facts.names.join(" → ") : facts.script;
  document.title = `${name} · gradscope`;
  element("script").textContent = name;
  element("about").textContent = ` ${facts.producer} · level ${facts.level || "unknown"}`;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const again = () => {
    colours.read();
    app.tell("look");
  };
  system.addEventListener("change", again);
  return () => {
    const { dataset } = document.documentElement;
    dataset.theme = LOOKS[(LOOKS.indexOf(dataset.theme ?? "") + 1) % LOOKS.length];
    again();
  };
}

/** @param {App} app */
function tabs(app) {
  const names = [...TABS, ...(app.changed ? ["compared"] : [])];
  const choose = (/** @type {string} */ name) => {
    for (const each of names) {
      const tab = element(`tab-${each}`);
      tab.setAttribute("aria-selected", String(each === name));
      tab.tabIndex = each === name ? 0 : -1;
      element(`${each}-panel`).hidden = each !== name;
    }
    drawers("left");
    element(`tab-${name}`).focus();
    app.tell("look");
  };
  names.forEach((name, at) => {
    const tab = element(`tab-${name}`);
    tab.addEventListener("click", () => choose(name));
    tab.addEventListener("keydown", (event) => {
      const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (way) choose(names[(at + way + names.length) % names.length]);
    });
  });
  if (app.changed) {
    choose("compared");
    /** @type {HTMLElement} */ (document.activeElement)?.blur();
    drawers("");
  }
  return choose;
}

/** On narrow screens the side panels are drawers: open one, or none. @param {string} side */
function drawers(side) {
  for (const each of ["left", "right"]) {
    element(each).classList.toggle("open", each === side);
    element(`open-${each}`).setAttribute("aria-expanded", String(each === side));
  }
}

/** On narrow screens a selection on the left opens the panel on the right. @param {App} app */
function leadOn(app) {
  const narrow = matchMedia("(max-width: 900px)");
  app.follow((changes) => {
    if (!changes.has("selection") || !narrow.matches || !element("left").classList.contains("open")) return;
    if (app.node < 0 && app.group < 0) return;
    drawers("right");
    element("details").focus();
  });
}

/** The nodes and arrows of the critical path in the current view. @param {App} app */
function criticalPath(app) {
  const { critical } = app.model.tables;
  const button = element("critical");
  const find = () => {
    const rows = [...critical.get("node").keys()].filter((row) => app.covers(critical.get("backward")[row]));
    const nodes = rows.map((row) => critical.get("node")[row]).filter((node) => node >= 0);
    app.criticalNodes = new Set(nodes);
    app.criticalKeys = new Set();
    for (let at = 1; at < nodes.length; at += 1) {
      const tail = keyOf(app.picture.boxOf[nodes[at - 1]]);
      const leaf = app.model.isLeaf(nodes[at]);
      app.criticalKeys.add(`${tail}>${leaf ? `l${nodes[at]}u${nodes[at - 1]}` : keyOf(app.picture.boxOf[nodes[at]])}`);
    }
  };
  app.listeners.unshift((changes) => { if (app.critical && (changes.has("picture") || changes.has("backward"))) find(); });
  button.hidden = !critical.length;
  const toggle = () => {
    app.critical = !app.critical && critical.length > 0;
    if (app.critical) find();
    button.setAttribute("aria-pressed", String(app.critical));
    app.tell("look");
  };
  button.addEventListener("click", toggle);
  return toggle;
}

/** The menu of graphs: forward or backward. @param {Graphs} graphs @param {{turnTo: (app: App) => void}[]} panels */
function turning(graphs, panels) {
  const select = /** @type {HTMLSelectElement} */ (element("which"));
  /** @type {HTMLElement} */ (select.closest("label")).hidden = !graphs.isThere;
  graphs.listeners.push((app) => {
    select.value = app === graphs.main ? "backward" : "forward";
    for (const panel of panels) panel.turnTo(app);
    graphs.main.tell("selection");
  });
  select.addEventListener("change", () => graphs.show(select.value === "forward"));
  return () => graphs.show(graphs.shown === graphs.main);
}

/** Keep the address and the view in sync. @param {App} app @param {Graphs} graphs @param {Sides | null} sides */
function address(app, graphs, sides) {
  let last = location.hash;
  let waiting = 0;
  const write = () => {
    const fragment = [app.fragment, app.coloring === "kind" ? "" : `k=${app.coloring}`, graphs.fragment, sides?.fragment].filter(Boolean).join("&");
    if (`#${fragment}` === last || !fragment && !location.hash) return;
    last = fragment ? `#${fragment}` : "";
    try {
      history.replaceState(null, "", last || location.pathname + location.search);
    } catch {
      // In a notebook's frame there is no address to change.
    }
  };
  const soon = () => {
    clearTimeout(waiting);
    waiting = setTimeout(write, 200);
  };
  const restore = () => {
    const coloring = /** @type {HTMLSelectElement} */ (element("coloring"));
    const wanted = saidIn(location.hash).get("k") ?? "kind";
    if ([...coloring.options].some((each) => each.value === wanted)) [coloring.value, app.coloring] = [wanted, wanted];
    app.restore(location.hash);
    graphs.restore(location.hash);
    sides?.restore(saidIn(location.hash).get("s"));
  };
  app.follow(soon);
  sides?.select.addEventListener("change", soon);
  const followed = new Set([app]);
  graphs.listeners.push((shown) => {
    if (!followed.has(shown)) shown.follow(soon);
    followed.add(shown);
  });
  addEventListener("hashchange", () => {
    if (location.hash !== last) restore();
    last = location.hash;
  });
  if (location.hash.length > 1) restore();
  return write;
}

/** Open at the worst finding, or at what `--around` names. @param {App} app @param {Findings} findings */
function openAt(app, findings) {
  const { node, backward, finding } = app.model.facts.opens;
  if (backward >= 0) app.setBackward(backward, true);
  if (node < 0) return;
  app.selectNode(node);
  app.unfold(node);
  findings.at = finding;
}

async function begin() {
  if (!("DecompressionStream" in window)) {
    fail("This browser is too old to show this page: it lacks DecompressionStream, which all browsers have since 2023.");
    return;
  }
  const model = await unpack(/** @type {string} */ (element("trace").textContent).trim());
  const app = new App(model);
  const colours = new Colours();
  const look = dress(app, colours);
  new Menus(app);
  const critical = criticalPath(app);
  const card = new HoverCard();
  const graph = new GraphPanel(app, colours, card);
  app.view = graph.view;
  const graphs = new Graphs(app);
  const timeline = new Timeline(graphs, colours, card);
  new RankLanes(timeline);
  const outline = new Outline(app);
  new Details(graphs);
  const legend = new Legend(app);
  new Slowest(app);
  const sides = app.changed ? new Sides(graphs, graph, colours) : null;
  const compared = sides ? new Compared(app, graphs, sides) : null;
  const findings = new Findings(app);
  const search = new Search(app, findings);
  const coloring = /** @type {HTMLSelectElement} */ (element("coloring"));
  if (app.changed?.facts.timed) coloring.append(new Option(app.changed.enough ? "slower than before" : "longer than before", "slower"));
  coloring.addEventListener("change", () => { app.coloring = coloring.value; app.tell("look"); });
  element("look").addEventListener("click", look);
  const shapes = () => {
    app.shapes = !app.shapes;
    element("shapes").setAttribute("aria-pressed", String(app.shapes));
    app.tell("look");
  };
  element("shapes").addEventListener("click", shapes);
  const turn = turning(graphs, [graph, outline, legend, search]);
  const tab = tabs(app);
  for (const side of ["left", "right"]) element(`open-${side}`).addEventListener("click", () => drawers(element(side).classList.contains("open") ? "" : side));
  element("graph").addEventListener("pointerdown", () => drawers(""));
  for (const each of ["close-left", "close-right"]) element(each).addEventListener("click", () => drawers(""));
  leadOn(app);
  new Keys(graphs, {
    graph, timeline, search, findings, look, shapes, critical, tab, drawers, turn,
    coloring: () => { coloring.selectedIndex = (coloring.selectedIndex + 1) % coloring.length; coloring.dispatchEvent(new Event("change")); },
    details: () => { drawers("right"); element("details").focus(); },
  });
  splitSides();
  new Summary(timeline, findings, tab);
  new Memory(timeline);
  openAt(app, findings);
  if (model.facts.opens.node < 0 && location.hash.length <= 1) compared?.begin();
  if (model.facts.begins === "forward") graphs.show(true);
  new Share(graphs, colours, address(app, graphs, sides));
  Object.defineProperty(window, "gradscope", { value: app });
  Object.defineProperty(app, "graphs", { value: graphs });
  Object.defineProperty(app, "timeline", { value: timeline });
  Object.defineProperty(app, "sides", { value: sides });
  app.tell("backward", "picture", "selection", "event");
  app.flush();
  graph.resize();
  document.documentElement.dataset.ready = "yes";
}

begin().catch((error) => {
  fail(`This page could not be shown: ${error.message}`);
  throw error;
});
