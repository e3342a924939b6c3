"""The report as JSON. See docs/reference/report.md for its fields; VERSION: when they change."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import IntEnum
from math import isfinite
from typing import Any

from gradscope.analysis.findings import Finding
from gradscope.analysis.report import Report
from gradscope.analysis.timing.long_run import LongRun
from gradscope.render.text import visible_json

VERSION = 1


def report_json(report: Report, notes: tuple[str, ...]) -> str:
    """The report for programs. Fields are added to it, never renamed."""
    document: dict[str, Any] = {
        "version": VERSION,
        "findings": [_finding(finding) for finding in report.findings],
        "known": [_finding(finding) for finding in report.known],
        "gone": report.gone,
        "checked": report.checked,
        "unchecked": [asdict(unchecked) for unchecked in report.unchecked],
        "partly": [asdict(each) for each in report.partly],
        "faults": [asdict(each) for each in report.faults],
        "exit_code": report.exit_code,
        "notes": notes,
        "summary": asdict(report.summary),
        "nodes": [asdict(timing) for timing in report.nodes],
        "ops": [asdict(timing) for timing in report.ops],
        "backward_ops": [asdict(timing) for timing in report.backward_ops],
        "optimizer_ops": [asdict(timing) for timing in report.optimizer_ops],
        "modules": [asdict(module) for module in report.modules],
        "lines": [asdict(line) for line in report.lines],
        "waits": asdict(report.waits),
        "ranks": [asdict(each) for each in report.ranks],
        "run": None if report.run is None else _run(report.run),
        "compiled": _named(asdict(report.compiled)),
    }
    return visible_json(json.dumps(document, ensure_ascii=False, indent=2))


def _run(run: LongRun) -> dict[str, Any]:
    """How many steps ran, and what was measured of some; a loss that is not finite is null."""
    measured = [
        {
            "step": each.number,
            "loss": each.row.loss if each.has_loss and isfinite(each.row.loss) else None,
            "not_finite": each.what,
        }
        for each in run.measured
    ]
    return {"steps": run.steps, "measured": measured}


def _named(value: Any) -> Any:
    """The same with names in place of the numbers of enums."""
    if isinstance(value, dict):
        return {key: _named(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [_named(each) for each in value]
    return value.name.lower() if isinstance(value, IntEnum) else value


def _finding(finding: Finding) -> dict[str, Any]:
    fields = asdict(finding) | {"severity": finding.severity.name.lower()}
    return {"id": fields.pop("id"), **fields}
