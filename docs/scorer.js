// The scores of Sphinx's search, with two additions: an option or a rule that is searched by its name comes first, and
// how-to pages come before pages that contain every word.
const asked = new URLSearchParams(location.search).get("q")?.trim();
const isNamed = (title) => title.endsWith(`.${asked}`) || (/^GS\d+ /.test(title) && title.split(" ").includes(asked));
const LONG = ["engine/errors", "engine/operations", "reference/messages", "reference/trace-format"];
const ofPage = (page) => (LONG.includes(page) ? -10 : page.startsWith("how-to/") ? 10 : 0);
var Scorer = {
  score: ([page, title, , , score]) => score + ofPage(page) + (isNamed(title) ? 1000 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
