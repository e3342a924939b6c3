/** A small card of facts next to the pointer. */

import { definitions, made } from "./outline.js";

const AWAY = 14;

/** The card: a title, and names with values. It holds plain text only. */
export class HoverCard {
  constructor() {
    this.element = made("div", "hover-card");
    this.element.hidden = true;
    this.element.setAttribute("aria-hidden", "true"); // its line is for screen readers
    document.body.append(this.element);
  }

  /** Show facts next to a point of the window. @param {number} x @param {number} y @param {string} title @param {[string, string][]} facts */
  show(x, y, title, facts) {
    const { element } = this;
    const text = [title, ...facts.flat()].join("\n");
    if (this.text !== text) {
      this.text = text;
      element.replaceChildren(made("strong", "", title), definitions(facts));
    }
    element.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = element;
    const left = x + AWAY + width > innerWidth ? x - AWAY - width : x + AWAY;
    const top = y + AWAY + height > innerHeight ? y - AWAY - height : y + AWAY;
    element.style.left = `${Math.max(left, 4)}px`;
    element.style.top = `${Math.max(top, 4)}px`;
  }

  hide() {
    this.element.hidden = true;
  }

  /** The facts as one line, for screen readers. @returns {string} */
  get line() {
    return (this.text ?? "").replace(/\n/g, ", ");
  }
}
