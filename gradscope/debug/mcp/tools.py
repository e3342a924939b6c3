"""The tools of the server: each answers one question about a trace, shortly, and only reads."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable
from typing import Any

from gradscope.analysis.findings import Finding
from gradscope.analysis.report import inspect
from gradscope.analysis.rules import all_rules
from gradscope.analysis.rules.registry import require, rules_near
from gradscope.debug.mcp.served_folder import ServedFolder
from gradscope.errors import GradscopeError, UnknownNameError
from gradscope.fleet.asking.folder import Asked, fleet_at
from gradscope.fleet.asking.free_sql import answered, first_rows
from gradscope.fleet.packages import needs
from gradscope.render.text import visible_json
from gradscope.scene.answers.answer import Answer
from gradscope.scene.answers.things import chosen_node
from gradscope.scene.answers.value_history import value_history
from gradscope.scene.answers.why_none import why_none
from gradscope.scene.report import found_in, verdict
from gradscope.trace.load_save import load
from gradscope.trace.schema import Meta
from gradscope.trace.trace import Trace

FILES, FINDINGS, LINES, ROWS, RULES = 100, 20, 12, 50, 12
"""Largest numbers of things in one answer."""
WIDEST = 400
"""Longest text of a cell of `sql`."""


class TraceTools:
    """The tools, each a method whose docstring and arguments a client sees."""

    def __init__(self, folder: ServedFolder) -> None:
        self._folder = folder
        self._one_at_a_time = threading.Lock()

    def every(self) -> list[Callable[..., str]]:
        return [
            self.traces, self.findings, self.explain, self.why_none, self.value_history,
            self.node, self.sql,
        ]  # fmt: skip

    def traces(self) -> str:
        """List the traces in the folder: file, script, level, engine, and how the script ended.

        Start here. The other tools take the `file` of a trace as `trace`.
        """
        with self._one_at_a_time:
            every = [*self._folder.traces()]
            rows: list[dict[str, Any]] = []
            for path in every[:FILES]:
                row: dict[str, Any] = {"file": self._folder.named(path)}
                try:
                    meta = load(path, (Meta,)).meta
                except GradscopeError as error:
                    row["unreadable"] = str(error)
                else:
                    keys = (
                        "script",
                        "level",
                        "producer",
                        "rank",
                        "world_size",
                        "exit",
                        "exit_code",
                    )
                    row |= {key: meta[key] for key in keys if key in meta}
                rows.append(row)
            return _text({"traces": rows, "more": len(every) - len(rows)})

    def findings(self, trace: str, select: str = "", ignore: str = "") -> str:
        """What `gradscope inspect` finds in a trace, the worst first.

        Each finding has an id, the line, what is wrong and why, what to write instead, its steps,
        and how sure it is: certain (observed), inferred, or suspected (matches a pattern).
        `select` and `ignore` name rules: ids, slugs or prefixes, as in "GS4,graph-kept".
        """
        with self._one_at_a_time:
            loaded = self._folder.trace(trace)
            report = inspect(loaded, rules=_names(select), ignore=_names(ignore))
            return _text({
                "verdict": verdict(report),
                "findings": [_finding(each) for each in report.findings[:FINDINGS]],
                "more": max(len(report.findings) - FINDINGS, 0),
                "not_checked": sorted({each.reason for each in report.unchecked}),
                "could_not_run": [each.words for each in report.faults],
                "notes": loaded.notes,
            })  # fmt: skip

    def explain(self, rule: str) -> str:
        """Explain a rule by id or slug, with a bad and a good example; or list rules for a word."""
        try:
            found = require(all_rules(), rule)
        except UnknownNameError:
            near = rules_near(all_rules(), rule)
            if not near:
                raise
            rows = [{"id": e.id, "slug": e.slug, "what": e.summary} for e in near[:RULES]]
            return _text({"rules": rows, "more": max(len(near) - RULES, 0)})
        told = found.explained
        return _text({
            "id": found.id, "slug": found.slug, "severity": found.severity.name.lower(),
            "needs_level": found.needs, "what": told.what, "why": told.why,
            "bad": told.bad, "good": told.good,
        })  # fmt: skip

    def why_none(self, trace: str, parameter: str) -> str:
        """Why the .grad of a parameter is None. `parameter`: its name (encoder.weight) or id."""
        return self._answered(trace, parameter, why_none)

    def value_history(self, trace: str, tensor: str) -> str:
        """How the values of a tensor changed over the steps: NaN, Inf, min, max, mean, norm.

        `tensor`: a name (encoder.weight), or an id. For a parameter, also its gradient.
        """
        return self._answered(trace, tensor, value_history)

    def node(self, trace: str, node: str) -> str:
        """Everything about a node of the backward graph, by name (MulBackward0#2) or id."""
        return self._answered(trace, node, chosen_node)

    def sql(self, fleet: str, select: str) -> str:
        """Answer one SELECT over the tables of a fleet, a folder that `gradscope export` wrote.

        `SHOW TABLES` lists the tables, `DESCRIBE step` the columns of one. At most 50 rows.
        """
        needs(("duckdb", "pyarrow"))
        with self._one_at_a_time:
            found = fleet_at(self._folder.fleet(fleet), Asked())
            with answered(found, select) as reader:
                rows, more = first_rows(reader, ROWS)
        shown = [{key: _short(value) for key, value in row.items()} for row in rows]
        return _text({"rows": shown, "more": more})

    def _answered(self, trace: str, of: str, answer: Callable[[Trace, str], Answer]) -> str:
        with self._one_at_a_time:
            loaded = self._folder.trace(trace)
            return _text(_answer(answer(loaded, of), loaded))


def _names(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _finding(finding: Finding) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": f"#{finding.id}",
        "rule": f"{finding.rule} {finding.slug}",
        "severity": finding.severity.name.lower(),
        "certainty": str(finding.certainty),
        "line": finding.site.place,
        "code": finding.site.text,
        "message": finding.message,
        "why": finding.why,
        "fix": finding.fix,
        "where": found_in(finding),
        "evidence": [f"{each.table} {each.id}" for each in finding.evidence[:RULES]],
    }
    if finding.rewrite is not None:
        rewrite = finding.rewrite
        shown["rewrite"] = {
            "line": rewrite.site.place, "code": rewrite.code,
            "safe": not rewrite.unsafe, "unsafe": rewrite.unsafe,
        }  # fmt: skip
    return {key: value for key, value in shown.items() if value}


def _answer(answer: Answer, trace: Trace) -> dict[str, Any]:
    sections = {}
    for each in answer.sections:
        more = len(each.lines) - LINES
        sections[each.title] = [*each.lines[:LINES], *[f"and {more} more"] * (more > 0)]
    return {
        "answer": answer.title,
        "facts": dict(answer.facts),
        "sections": sections,
        "notes": [*answer.notes, *trace.notes],
    }


def _short(value: object) -> object:
    if (
        value is None
        or isinstance(value, bool | int)
        or (isinstance(value, float) and math.isfinite(value))
    ):
        return value
    text = str(value)
    return text if len(text) <= WIDEST else f"{text[:WIDEST]}…"


def _text(answer: dict[str, Any]) -> str:
    """The answer as JSON, without parts that are empty."""
    kept = {key: value for key, value in answer.items() if value or key in ("findings", "rows")}
    return visible_json(json.dumps(kept, ensure_ascii=False, default=str))
