"""The report of `inspect`: for a person, worst first; and for programs, as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.text import Text

from gradscope.analysis.findings import Certainty, Finding, Severity
from gradscope.analysis.report import Report
from gradscope.analysis.rules.registry import Rule
from gradscope.render.terminal.cells import Charset, line, wrapped
from gradscope.render.terminal.styles import ACCENT, BOLD, GOOD, SEVERITY_STYLES, SOFT, WARN
from gradscope.render.text import visible_json
from gradscope.render.views.tables import table_lines
from gradscope.scene.readable import count, plural
from gradscope.scene.report import headline, report_tables

JSON_VERSION = 1
INDENT = "    "


def report_lines(report: Report, width: int, charset: Charset, rows: int) -> Iterator[Text]:
    """The report for a person: the trace in two lines, findings, then tables."""
    for number, text in enumerate(headline(report)):
        for part in wrapped(charset, text, width):
            yield line((part, BOLD if number == 0 else SOFT))
    yield line("")
    for finding in report.findings[:rows] if rows else report.findings:
        yield from _finding(finding, width, charset)
        yield line("")
    for part in wrapped(charset, _verdict(report, rows), width):
        yield line((part, BOLD if report.findings else GOOD))
    for unchecked in report.unchecked:
        why = f"record with --level {unchecked.needs}"
        if unchecked.lacks:
            why = f"this recording could not see {', '.join(unchecked.lacks)}"
        text = f"not checked: {unchecked.rule} {unchecked.slug}: {why}"
        for part in wrapped(charset, text, width):
            yield line((part, WARN))
    for table in report_tables(report, rows or 1_000_000):
        yield line("")
        yield from table_lines(table, width, charset)


def _finding(finding: Finding, width: int, charset: Charset) -> Iterator[Text]:
    word = finding.severity.name.lower()
    head = f"{word} {finding.rule} "
    first, *more = wrapped(charset, finding.message, width - len(head))
    yield line((word, SEVERITY_STYLES[finding.severity]), f" {finding.rule} ", (first, BOLD))
    for part in more:
        yield line(" " * len(head), (part, BOLD))
    if finding.site.text:
        room = width - len(INDENT)
        place = f"{finding.site.place}: "
        text = charset.fit(place + finding.site.text, room).rstrip()
        yield line(INDENT, (text, ACCENT))
    certainty = "" if finding.certainty is Certainty.CERTAIN else str(finding.certainty)
    for name, text in (("why", finding.why), ("fix", finding.fix), ("sure", certainty)):
        if text:
            yield from _labelled(name, text, width, charset)


def _labelled(name: str, text: str, width: int, charset: Charset) -> Iterator[Text]:
    label = f"{INDENT}{name:<5}"
    for part in wrapped(charset, text, width - len(label)):
        yield line((label, SOFT), part)
        label = " " * len(label)


def _verdict(report: Report, rows: int) -> str:
    rules = plural(len(report.checked), "rule")
    if not report.findings:
        return f"nothing found by {rules}"
    counts = Counter(finding.severity for finding in report.findings)
    parts = [
        plural(counts[severity], severity.name.lower())
        for severity in sorted(Severity, reverse=True)
        if counts[severity]
    ]
    left = len(report.findings) - rows if rows else 0
    hidden = f", {count(left)} of them not shown: --rows N for more" if left > 0 else ""
    return f"{', '.join(parts)} found by {rules}{hidden}"


def report_json(report: Report, notes: tuple[str, ...]) -> str:
    """The report for programs. Fields are added to it, never renamed."""
    document: dict[str, Any] = {
        "version": JSON_VERSION,
        "findings": [_finding_json(finding) for finding in report.findings],
        "checked": report.checked,
        "unchecked": [asdict(unchecked) for unchecked in report.unchecked],
        "notes": notes,
        "summary": asdict(report.summary),
        "nodes": [asdict(timing) for timing in report.nodes],
        "ops": [asdict(timing) for timing in report.ops],
        "backward_ops": [asdict(timing) for timing in report.backward_ops],
        "optimizer_ops": [asdict(timing) for timing in report.optimizer_ops],
        "modules": [asdict(module) for module in report.modules],
    }
    return visible_json(json.dumps(document, ensure_ascii=False, indent=2))


def _finding_json(finding: Finding) -> dict[str, Any]:
    return asdict(finding) | {"severity": finding.severity.name.lower()}


def rule_lines(rule: Rule, width: int, charset: Charset) -> Iterator[Text]:
    """What `--explain` says about a rule."""
    yield line((f"{rule.id} {rule.slug}", BOLD))
    facts = f"{rule.severity.name.lower()}, needs a trace of level {rule.needs} or above"
    yield line((charset.fit(facts, width).rstrip(), SOFT))
    yield line("")
    for text in rule.explanation.split("\n"):
        if text.startswith(" ") or not text:
            yield line((charset.fit(text, width).rstrip(), ACCENT))
        else:
            yield from (line(part) for part in wrapped(charset, text, width))
