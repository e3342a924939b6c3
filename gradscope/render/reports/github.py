"""Findings as annotations of a GitHub workflow: lines that its runner reads in a step's output."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.findings import Finding, Severity
from gradscope.analysis.report import Report
from gradscope.render.reports import About
from gradscope.render.text import visible

COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
LONGEST = 2_000


def annotation_lines(report: Report, about: About) -> Iterator[str]:
    """A line for each finding, worst first, and for each rule that could not be checked or run."""
    for finding in report.findings:
        yield _annotation(finding, about)
    for fault in report.faults:
        yield f"::notice title={_property(f'{fault.what} could not run')}::{_data(fault.words)}"
    for unchecked in report.unchecked:
        title = f"{unchecked.rule} {unchecked.slug} was not checked"
        yield f"::notice title={_property(title)}::{_data(unchecked.reason)}"


def _annotation(finding: Finding, about: About) -> str:
    place = {"file": about.file(finding.site), "line": finding.site.line}
    where = {name: value for name, value in place.items() if place["file"] and value}
    properties = {**where, "title": f"{finding.rule} {finding.slug}"}
    shown = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items())
    told = (
        finding.message,
        finding.why and f"why: {finding.why}",
        finding.fix and f"fix: {finding.fix}",
    )
    text = "\n".join(_visible(each) for each in told if each)
    return f"::{COMMANDS[finding.severity]} {shown}::{_data(text)}"


def _visible(text: str) -> str:
    return visible(text, LONGEST)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(_visible(text)).replace(":", "%3A").replace(",", "%2C")
