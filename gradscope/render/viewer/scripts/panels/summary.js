/** The summary of the trace: the verdict, findings, times, the peak of saved memory, the slowest lines, limits. */

import { definitions, link, listed, made } from "./outline.js";
import { SEVERITIES, toLine } from "./lists.js";
import { RankHeat } from "../ranks/rank_heat.js";
import { waitsBetweenRanks } from "../ranks/waits.js";
import { byteCount, count, duration, plural } from "../core/words.js";

/** @typedef {import("../core/app.js").App} App */

const FEW_FINDINGS = 5;
const SLOWEST_LINES = 3;
const PARTS = ["forward", "backward", "optimizer"];

/** The first of the lists on the left. */
export class Summary {
  /** @param {import("../time/timeline.js").Timeline} timeline @param {import("./lists.js").Findings} findings @param {(name: string) => void} tab shows another list */
  constructor(timeline, findings, tab) {
    const { app } = timeline;
    this.timeline = timeline;
    this.app = app;
    this.findings = findings;
    this.tab = tab;
    this.element = /** @type {HTMLElement} */ (document.getElementById("summary-panel"));
    const { summary, whole } = app.model.facts;
    const worst = Math.max(-1, ...app.model.tables.findings.get("severity"));
    this.element.append(made("h2", worst > 1 ? "verdict alarm" : "verdict", summary.verdict));
    const counted = [summary.steps && `${plural(summary.steps, "step")}${summary.ranks ? ` on ${plural(summary.ranks, "rank")}` : ""}`, plural(summary.backwards, "backward"), plural(whole.nodes, "node"), plural(whole.events, "event")];
    this.element.append(made("p", "under", counted.filter(Boolean).join(", ")));
    this.worst();
    if (app.model.facts.heat) new RankHeat(timeline, this.element);
    this.element.append(...waitsBetweenRanks(timeline));
    this.times();
    this.slowest();
    this.limits();
  }

  worst() {
    const { findings } = this.app.model.tables;
    const rows = [...Array(findings.length).keys()];
    if (!rows.length) return;
    this.element.append(listed(rows.slice(0, FEW_FINDINGS), (row) => {
      const severity = SEVERITIES[findings.get("severity")[row]];
      const where = [findings.text("place", row), findings.text("where", row)].filter(Boolean).join(", ");
      const said = link(findings.text("message", row), () => this.findings.show(row));
      said.classList.add("clamped");
      said.title = findings.text("message", row);
      return [made("div", `head ${severity === "error" ? "alarm" : ""}`, `${severity} ${findings.text("rule", row)}`), said, made("div", "soft", where)];
    }, FEW_FINDINGS, "worst"));
    this.element.append(link(`${plural(rows.length, "finding")} with reasons and fixes`, () => this.tab("findings")));
  }

  times() {
    const { times, peak } = this.app.model.facts.summary;
    /** @type {[string, string | Node][]} */
    const facts = PARTS.map((name, part) => /** @type {[string, string]} */ ([name, duration(times[part])])).filter((_, part) => times[part] > 0);
    if (peak > 0) facts.push(["saved at most", link(byteCount(peak), () => this.tab("memory"))]);
    if (!facts.length) return;
    const scope = [...this.app.model.facts.summary.steps > 1 ? ["all steps"] : [], ...this.app.rank < 0 ? [] : ["all ranks together"]];
    this.element.append(made("h3", "", ["Time and memory", ...scope].join(", ")), definitions(facts));
  }

  slowest() {
    const { slow_lines: lines } = this.app.model.tables;
    if (!lines.length) return;
    this.element.append(made("h3", "", "Slowest lines"));
    this.element.append(listed([...Array(lines.length).keys()].slice(0, SLOWEST_LINES), (row) => [
      toLine(this.app, row), made("span", "much", duration(lines.get("all")[row])), made("code", "line", lines.text("text", row)),
      ...(2 * lines.get("between")[row] > lines.get("all")[row] ? [made("span", "soft", "mostly before its calls (Python, imports, input)")] : []),
    ], SLOWEST_LINES, "slow"));
    this.element.append(link("all times", () => this.tab("slowest")));
  }

  limits() {
    const { limits, part } = this.app.model.facts;
    if (part) this.element.append(made("p", "soft", `Only ${part} is on this page.`));
    if (!limits.length) return;
    const box = made("details");
    box.append(made("summary", "", `${count(limits.length)} ${limits.length === 1 ? "limit" : "limits"} of this recording`));
    box.append(listed(limits, (limit) => [limit], limits.length, "soft"));
    this.element.append(box);
  }
}
