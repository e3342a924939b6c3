from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given

from gradscope import __version__
from gradscope.analysis.findings import Finding
from gradscope.analysis.identity.known import known_text
from gradscope.analysis.identity.sites import Site
from gradscope.analysis.report import Report, inspect
from gradscope.render.reports import About
from gradscope.render.reports.github import annotation_lines
from gradscope.render.reports.json import report_json
from gradscope.render.reports.sarif import report_sarif
from tests.render.hostile import named, names
from tests.shared.example_traces import FEW, mean_of_squares, nan_in_backward


def test_the_document_has_what_its_page_says() -> None:
    document = json.loads(report_json(inspect(nan_in_backward()), ()))

    assert document.keys() == {"version", "notes", *(each.name for each in fields(Report))}
    for finding in document["findings"]:
        assert finding.keys() == {each.name for each in fields(Finding)}


def test_sarif_is_as_it_was_reviewed(golden: Callable[[str, str], None], tmp_path: Path) -> None:
    """The golden file is valid against the schema of SARIF 2.1.0 (OASIS, errata 01)."""
    known = tmp_path / "known.json"
    known.write_text(known_text(inspect(nan_in_backward()).findings[:1]), encoding="utf-8")

    text = report_sarif(inspect(nan_in_backward(), rules=FEW, known=known), About(baseline=True))

    golden("nan.sarif", text.replace(f'"{__version__}"', '"VERSION"') + "\n")


def test_sarif_says_which_rules_could_not_look() -> None:
    (run,) = json.loads(report_sarif(inspect(mean_of_squares(), rules=FEW), About()))["runs"]

    notification, *_ = run["invocations"][0]["toolConfigurationNotifications"]
    assert notification["message"]["text"] == (
        "GS201 non-finite-birth not checked: record with --level values"
    )
    assert run["results"] == []


def test_annotations_are_as_it_was_reviewed(golden: Callable[[str, str], None]) -> None:
    lines = [
        *annotation_lines(inspect(nan_in_backward(), rules=FEW), About()),
        *annotation_lines(inspect(mean_of_squares(), rules=FEW), About()),
    ]

    golden("github.txt", "".join(f"{line}\n" for line in lines))


@pytest.mark.parametrize(
    ("folder", "root", "file", "path"),
    [
        ("/ci/repo/jobs", "/ci/repo", "train.py", "jobs/train.py"),
        ("/ci/repo", "", "train.py", "train.py"),
        ("/ci/repo", "/elsewhere", "train.py", "train.py"),
        ("/ci/repo", "/ci/repo", "/usr/lib/a.py", "/usr/lib/a.py"),
        ("", "", "train.py", "train.py"),
        ("C:\\ci\\repo", "", "C:\\ci\\repo\\src\\a.py", "src/a.py"),
        ("/ci/repo", "/ci/repo", "", ""),
    ],
)
def test_files_are_named_from_the_root(folder: str, root: str, file: str, path: str) -> None:
    assert About(folder=folder, root=root).file(Site(file=file)) == path


@given(names)
def test_whatever_a_program_names_each_finding_is_one_command(name: str) -> None:
    (line,) = [each for each in annotation_lines(inspect(named(name)), About()) if "GS301" in each]

    _, command, text = line.split("::", 2)
    assert command.startswith("error ")
    assert line.splitlines() == [line]
    for each in command.removeprefix("error ").split(","):
        assert each.partition("=")[0] in {"file", "line", "title"}
    assert "%0A" in text


@given(names)
def test_whatever_a_program_names_sarif_is_json_with_its_file(name: str) -> None:
    report = inspect(named(name))
    (run,) = json.loads(report_sarif(report, About()))["runs"]

    for result, finding in zip(run["results"], report.findings, strict=True):
        assert result["ruleId"] == run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"]
        for location in result["locations"]:
            uri = location["physicalLocation"]["artifactLocation"]["uri"]
            assert uri.isascii()
            assert unquote(uri.removeprefix("file://")) == About().file(finding.site)
