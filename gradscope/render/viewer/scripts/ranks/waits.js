/** Which rank waited for which, in a list. */

import { link, listed, made } from "../panels/outline.js";
import { duration } from "../core/words.js";

const LONGEST = 3;

/** The longest waits between ranks, and how they are known; nothing where there are none. @param {import("../time/timeline.js").Timeline} timeline @returns {HTMLElement[]} */
export function waitsBetweenRanks(timeline) {
  const { app } = timeline;
  const { tables, facts } = app.model;
  const { waits } = tables;
  if (!facts.ranks.length) return [];
  const found = [made("h3", "", "Waits between ranks (inferred)")];
  if (!waits.length) found.push(made("p", "soft", "No rank waited for another one in a collective that was recorded."));
  else {
    found.push(listed(waits.get("begin").keys(), (row) => [
      link(`rank ${waits.get("rank")[row]} waited ${duration(waits.get("ns")[row])} for rank ${waits.get("on")[row]}`, () => showWait(timeline, row)),
      made("div", "soft", [waits.text("name", row), ...(waits.get("step")[row] < 0 ? [] : [`step ${waits.get("step")[row]}`])].join(", ")),
    ], LONGEST));
  }
  const notes = [...facts.summary.waiting, ...(facts.clock ? [`clocks: ${facts.clock}`] : [])];
  found.push(made("p", "soft", `${notes.join("; ")}.`));
  return found;
}

/** Show the rank that waited, in its step, and when. @param {import("../time/timeline.js").Timeline} timeline @param {number} row */
function showWait(timeline, row) {
  const { app } = timeline;
  const { waits, backwards } = app.model.tables;
  const [rank, step, begin, ns] = ["rank", "step", "begin", "ns"].map((name) => waits.get(name)[row]);
  app.setRank(rank);
  const of = app.model.backwardsOf(rank).find((each) => backwards.get("step")[each] === step);
  if (of !== undefined) app.setBackward(of);
  app.range = [begin, begin + ns];
  app.tell("range");
  app.flush();
  timeline.showPeriod(begin - ns / 5, begin + 1.2 * ns);
}
