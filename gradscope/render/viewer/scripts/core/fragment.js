/** Reads the fragment of the page's address. */

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
