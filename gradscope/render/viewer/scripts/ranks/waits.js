/** Which rank waited for which, in a list. */

import { link, listed, made } from "../panels/outline.js";
import { duration } from "../core/words.js";
import { ranksNamed } from "./rank_rows.js";

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
    found.push(listed(waitsTogether(waits), (rows) => waitItem(timeline, rows), LONGEST));
  }
  const notes = [...facts.summary.waiting, ...(facts.clock ? [`clocks: ${facts.clock}`] : [])];
  found.push(made("p", "soft", `${notes.join("; ")}.`));
  return found;
}

/** The rows of waits, with those that ended with the same call in one. @param {import("../core/data.js").Table} waits @returns {number[][]} */
function waitsTogether(waits) {
  const [on, begin, ns] = ["on", "begin", "ns"].map((name) => waits.get(name));
  /** @type {Map<string, number[]>} */
  const found = new Map();
  for (const row of begin.keys()) {
    const key = `${on[row]} ${begin[row] + ns[row]} ${waits.text("name", row)}`;
    if (!found.has(key)) found.set(key, []);
    found.get(key)?.push(row);
  }
  return [...found.values()];
}

/** @param {import("../time/timeline.js").Timeline} timeline @param {number[]} rows the longest first */
function waitItem(timeline, rows) {
  const { waits } = timeline.app.model.tables;
  const [row] = rows;
  const [rank, step, ns, on] = ["rank", "step", "ns", "on"].map((name) => waits.get(name)[row]);
  const who = ranksNamed(rows.map((each) => waits.get("rank")[each]).sort((one, other) => one - other));
  return [
    link(`${who} waited ${rows.length > 1 ? "up to " : ""}${duration(ns)} for rank ${on}`, () => showWait(timeline, row)),
    made("div", "soft", [waits.text("name", row), ...(step < 0 ? [] : [`step ${step}`]), ...(rows.length > 1 ? [`longest on rank ${rank}`] : [])].join(", ")),
  ];
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
