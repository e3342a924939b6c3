/** What all parts of the details share: the panel, and how they write facts into it. */

import { definitions, link, listed, made } from "../panels/outline.js";

const MOST_LISTED = 12;

/** The panel on the right, which shows facts in sections. */
export class Facts {
  /** @param {import("../core/forward.js").Graphs} graphs */
  constructor(graphs) {
    this.graphs = graphs;
    this.app = graphs.main;
    this.element = /** @type {HTMLElement} */ (document.getElementById("details"));
  }

  /** @param {string} title */
  section(title) {
    this.element.append(made("h3", "", title));
  }

  /** @param {[string, string | Node][]} facts @param {HTMLElement} [into] */
  facts(facts, into = this.element) {
    into.append(definitions(facts));
  }

  /** @template T @param {Iterable<T>} things @param {(thing: T) => (string | Node)[]} show @param {number} [most] */
  list(things, show, most = MOST_LISTED) {
    this.element.append(listed(things, show, most));
  }

  /** @param {number} node */
  toNode(node) {
    return link(this.app.model.title(node), () => this.app.selectNode(node));
  }
}
