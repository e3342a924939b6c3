"""The result of a report in one line, and where a finding is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gradscope.analysis.findings import Finding, Severity
from gradscope.analysis.report import Report
from gradscope.scene.readable import count, plural


def by_severity(findings: Sequence[Finding]) -> list[str]:
    """How many findings there are of each severity, the worst first: "1 error", "2 warnings"."""
    counts = Counter(finding.severity for finding in findings)
    return [
        plural(counts[severity], severity.name.lower())
        for severity in sorted(Severity, reverse=True)
        if counts[severity]
    ]


def nothing_found(report: Report) -> str:
    """The verdict of a report without findings, or with notes only."""
    if not report.checked:
        return "no rule could be checked"
    held, notes = report.summary, plural(len(report.notes), "note")
    rules = plural(len(report.checked), "rule")
    if not (held.nodes or held.events or report.notes):
        what = "no autograd graph was recorded" if held.ops else "nothing was recorded"
        ended = f"; the script ended with exit code {report.exit_code}" if report.exit_code else ""
        return f"{what} ({rules} checked){ended}"
    new = "new " * bool(report.known)
    if report.notes:
        return f"{rules} checked, {new}{notes}"
    return f"{rules} checked, no {new}problems found"


def verdict(report: Report, rows: int = 0) -> str:
    """How many rules were checked, and what they found. `rows`: how many are shown; 0: all."""
    if not report.findings:
        return nothing_found(report)
    rules = plural(len(report.checked), "rule")
    parts = by_severity(report.at_least(Severity.WARNING))
    left = len(report.findings) - rows if rows else 0
    hidden = f"; {count(left)} of them not shown, use --rows N for more" if left > 0 else ""
    if not parts:
        return nothing_found(report) + hidden
    notes = f", {plural(len(report.notes), 'note')}" * bool(report.notes)
    new = "new: " * bool(report.known)
    return f"{rules} checked, {new}{', '.join(parts)} found{notes}{hidden}"


def found_in(finding: Finding) -> str:
    """ "rank 1, step 3, Head.forward": the rank, steps and function, if known."""
    rank = f"rank {finding.ranks[0]}" if len(finding.ranks) == 1 else ""
    where = rank, steps_in_words(finding.steps), finding.function
    return ", ".join(each for each in where if each)


def steps_in_words(numbers: Sequence[int]) -> str:
    """ "step 3", "steps 3 and 5" or "steps 3 to 7"; "" for none."""
    if len(numbers) < 2:
        return "".join(f"step {number}" for number in numbers)
    if len(numbers) == 2:
        return f"steps {numbers[0]} and {numbers[1]}"
    between = "to" if numbers[-1] - numbers[0] == len(numbers) - 1 else "…"
    return f"steps {numbers[0]} {between} {numbers[-1]}"
