/** How well names match what is looked for: exactly, at a beginning, somewhere, as an abbreviation, as a regular expression. */

export const EXACT = 0;
export const LAST_PART = 1;
export const BEGINNING = 2;
export const WORD = 3;
export const ANYWHERE = 4;
export const ABBREVIATED = 5;
export const NO_MATCH = 9;
/** Shorter abbreviations would match too much. */
const SHORTEST_ABBREVIATION = 3;
const PATTERN = /^\/(.+?)\/?$/;

/** @typedef {(text: string, words: string) => number} Matches how well a text in lower case matches, which is also given with its words apart; NO_MATCH where it does not */

/** A text in lower case with "_" between its words: "LogSoftmax" is "log_softmax". @param {string} text */
export function wordsApart(text) {
  return text.replace(/([a-z0-9])([A-Z])/g, "$1_$2").toLowerCase();
}

/** What a search term matches: `/…/` is a regular expression. @param {string} term @returns {Matches | string} a string: why it is not understood */
export function matcher(term) {
  const pattern = PATTERN.exec(term);
  if (pattern) {
    try {
      const expression = new RegExp(pattern[1], "i");
      return (text) => (text && expression.test(text) ? ANYWHERE : NO_MATCH);
    } catch {
      return `not a regular expression: ${pattern[1]}`;
    }
  }
  const wanted = term.toLowerCase();
  if (/\s/.test(wanted)) return severalWords(wanted.split(/\s+/));
  const abbreviation = wanted.length >= SHORTEST_ABBREVIATION && /^\w+$/.test(wanted) ? abbreviationOf(wanted) : null;
  return (text, words) => matchOf(text, words, wanted, abbreviation);
}

/** Words in their order, with anything between them. @param {string[]} wanted @returns {Matches} */
function severalWords(wanted) {
  const expression = new RegExp(wanted.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join(".*"));
  return (text, words) => (expression.test(text) || expression.test(words) ? ANYWHERE : NO_MATCH);
}

/** Letters in their order, the first at the beginning of a word. @param {string} wanted */
function abbreviationOf(wanted) {
  return new RegExp(`(?:^|[^a-z0-9])${[...wanted].join("[a-z0-9]*?_?")}`);
}

/** @param {string} text @param {string} words @param {string} wanted @param {RegExp | null} abbreviation */
function matchOf(text, words, wanted, abbreviation) {
  const at = text.indexOf(wanted);
  if (at < 0) return abbreviation?.test(words) ? ABBREVIATED : NO_MATCH;
  if (text.length === wanted.length) return EXACT;
  if (text.endsWith(`.${wanted}`)) return LAST_PART;
  if (at === 0) return BEGINNING;
  return /[^a-z0-9]/.test(text[at - 1]) || words.includes(`_${wanted}`) ? WORD : ANYWHERE;
}
