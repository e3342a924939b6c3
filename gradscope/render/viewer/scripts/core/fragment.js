/** The fragment of the page's address. */

/** @param {string} fragment @returns {Map<string, string>} */
export function saidIn(fragment) {
  return new Map(fragment.replace(/^#/, "").split("&").map((part) => /** @type {[string, string]} */ (part.split("=", 2))));
}

/** @param {string | undefined} text as it stands in an address @returns {string} */
export function plain(text) {
  try {
    return decodeURIComponent(text ?? "");
  } catch {
    return "";
  }
}

/** What is open and usually is not, and with a sign before it what is not. A group is its number, the inside of a node ~ and its number. @param {Set<number>} usual @param {Set<number>} open @param {number} root */
export function flippedIn(usual, open, root) {
  const name = (/** @type {number} */ part) => (part < 0 ? `~${(~part).toString(36)}` : part.toString(36));
  const shut = [...usual].filter((part) => !open.has(part)).map((part) => `-${name(part)}`);
  return [...shut, ...[...open].filter((part) => !usual.has(part) && (part < 0 || part > root)).map(name)].join(".");
}

/** What that says. @param {string} flipped @returns {{part: number, shut: boolean}[]} */
export function partsIn(flipped) {
  const parts = [...flipped.matchAll(/(-?)(~?)([0-9a-z]+)/g)];
  return parts.map(([, shut, inside, digits]) => ({ part: inside ? ~Number.parseInt(digits, 36) : Number.parseInt(digits, 36), shut: shut !== "" }));
}
