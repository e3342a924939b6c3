"""Findings as SARIF 2.1.0, which code scanning and editors read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from gradscope import __version__
from gradscope.analysis.findings import Finding, Severity
from gradscope.analysis.identity.sites import Site
from gradscope.analysis.report import Report
from gradscope.analysis.rules import all_rules
from gradscope.analysis.rules.registry import Rule
from gradscope.render.reports import About
from gradscope.render.text import visible_json

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
FINGERPRINT = "gradscopeFinding/v1"


def report_sarif(report: Report, about: About) -> str:
    """A SARIF log of one run, with the checked rules and their findings."""
    asked = {*report.checked, *(each.rule for each in report.unchecked)}
    asked |= {each.rule for each in report.faults}
    rules = [rule for rule in all_rules() if rule.id in asked]
    places = {rule.id: place for place, rule in enumerate(rules)}
    found = [(each, "new") for each in report.findings]
    found += [(each, "unchanged") for each in report.known]
    run = {
        "tool": {
            "driver": {
                "name": "gradscope",
                "version": __version__,
                "rules": [_rule(rule) for rule in rules],
            }
        },
        "invocations": [
            {
                "executionSuccessful": True,
                "toolConfigurationNotifications": [
                    {
                        "descriptor": {"id": each.rule},
                        "level": "note",
                        "message": {"text": f"{each.rule} {each.slug} not checked: {each.reason}"},
                    }
                    for each in report.unchecked
                ],
                "toolExecutionNotifications": [
                    {"level": "error", "message": {"text": each.words}}
                    | ({"associatedRule": {"id": each.rule}} if each.rule else {})
                    for each in report.faults
                ],
            }
        ],
        "columnKind": "unicodeCodePoints",
        "results": [
            _result(finding, report.summary.script, about, places)
            | ({"baselineState": state} if about.baseline else {})
            for finding, state in found
        ],
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return visible_json(json.dumps(document, ensure_ascii=False, indent=2))


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "name": rule.slug,
        "shortDescription": {"text": rule.summary},
        "help": {"text": rule.explanation},
        "defaultConfiguration": {"level": LEVELS[rule.severity]},
    }


def _result(
    finding: Finding, script: str, about: About, places: Mapping[str, int]
) -> dict[str, Any]:
    text = f"{finding.message}. {finding.why}. {finding.fix}".rstrip(". ")
    site = finding.site if finding.site.file else Site(file=script)
    return {
        "ruleId": finding.rule,
        "ruleIndex": places[finding.rule],
        "level": LEVELS[finding.severity],
        "message": {"text": text},
        "locations": [_location(site, about)] if site.file else [],
        "partialFingerprints": {FINGERPRINT: finding.id},
        "properties": {
            "certainty": str(finding.certainty),
            "why": finding.why,
            "fix": finding.fix,
            "evidence": [{"table": each.table, "id": each.id} for each in finding.evidence],
        },
    }


def _location(site: Site, about: About) -> dict[str, Any]:
    file = about.file(site)
    if file.startswith("/") or re.match("[A-Za-z]:/", file):
        artifact = {"uri": "file:///" + quote(file.removeprefix("/"), safe="/:")}
    else:
        artifact = {"uri": quote(file), "uriBaseId": "%SRCROOT%"}
    physical: dict[str, Any] = {"artifactLocation": artifact}
    if site.line > 0:
        physical["region"] = {"startLine": site.line, "snippet": {"text": site.text}}
    return {"physicalLocation": physical}
