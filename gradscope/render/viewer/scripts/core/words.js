/** Formats numbers for people, in the same way as in the terminal. */

/** @param {number} ns @returns {string} as in "1.24 ms" */
export function duration(ns) {
  if (ns < 0 || !Number.isFinite(ns)) return "?";
  for (const [size, unit] of /** @type {[number, string][]} */ ([[1e9, "s"], [1e6, "ms"], [1e3, "µs"]])) {
    if (ns >= size) return `${threeDigits(ns / size)} ${unit}`;
  }
  return `${Math.round(ns)} ns`;
}

/** @param {number} bytes @returns {string} as in "3.5 MiB" */
export function byteCount(bytes) {
  for (const [power, unit] of /** @type {[number, string][]} */ ([[30, "GiB"], [20, "MiB"], [10, "KiB"]])) {
    if (bytes >= 2 ** power) return `${threeDigits(bytes / 2 ** power)} ${unit}`;
  }
  return plural(bytes, "byte");
}

/** @param {number} value */
export function count(value) {
  return value.toLocaleString("en-US");
}

/** @param {number} value @param {string} noun @param {string} [more] */
export function plural(value, noun, more) {
  return `${count(value)} ${value === 1 ? noun : more ?? `${noun}s`}`;
}

/** @param {number} value @returns {string} as in "113th" */
export function ordinal(value) {
  const teen = value % 100 >= 11 && value % 100 <= 13;
  const ending = teen ? "th" : { 1: "st", 2: "nd", 3: "rd" }[value % 10] ?? "th";
  return `${count(value)}${ending}`;
}

/** @param {number} value @returns {string} as in "0.00123" */
export function number(value) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "–" : String(value);
  const text = Number(value.toPrecision(3));
  return Math.abs(text) >= 1e-4 && Math.abs(text) < 1e6 || text === 0 ? String(text) : value.toExponential(2);
}

/** @param {number} value */
function threeDigits(value) {
  if (Math.abs(value) >= 99.95) return count(Math.round(value));
  return Math.abs(value) >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

/** @param {string} text @param {number} length */
export function shorten(text, length) {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`;
}
