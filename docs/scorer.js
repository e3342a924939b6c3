// The scores of Sphinx's search, with one addition: an option or a rule that is searched by its name comes first.
const asked = new URLSearchParams(location.search).get("q")?.trim();
const isNamed = (title) => title.endsWith(`.${asked}`) || (/^GS\d+ /.test(title) && title.split(" ").includes(asked));
var Scorer = {
  score: ([, title, , , score]) => (isNamed(title) ? score + 1000 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
