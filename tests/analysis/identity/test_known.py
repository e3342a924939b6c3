from __future__ import annotations

from pathlib import Path

import pytest

import gradscope
from gradscope.analysis.identity.known import known_text
from gradscope.errors import UsageError
from gradscope.render.reports.json import report_json
from gradscope.trace.load_save import save
from tests.shared.example_traces import nan_in_backward


def test_what_is_known_is_not_among_the_findings(tmp_path: Path) -> None:
    trace = nan_in_backward()
    trace.notes = ("dropped: 1 rows were not recorded (op 1)",)
    one, other = gradscope.inspect(trace).findings
    known = tmp_path / "known.json"
    known.write_text(known_text([one]), encoding="utf-8")

    report = gradscope.inspect(trace, known=known)

    assert (report.findings, report.known, report.gone) == ((other,), (one,), 0)


def test_what_is_known_and_no_more_found_is_counted(tmp_path: Path) -> None:
    whole = gradscope.inspect(nan_in_backward())
    known = tmp_path / "report.json"
    known.write_text(report_json(whole, ()), encoding="utf-8")

    report = gradscope.inspect(nan_in_backward(), rules=["exception"], known=known)

    assert (report.findings, report.known, report.gone) == ((), (), len(whole.findings))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "there is no file of known findings .*; create it: gradscope inspect"),
        ("no json", "contains no findings; create it with --write-known"),
        ("[1]", "contains no findings"),
        ('{"findings": [{"rule": "GS201"}]}', "contains no findings"),
    ],
)
def test_a_file_that_holds_no_known_findings_is_refused(
    text: str | None, message: str, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / "known.json").write_text(text, encoding="utf-8")

    with pytest.raises(UsageError, match=message):
        gradscope.inspect(nan_in_backward(), known=tmp_path / "known.json")


def test_a_trace_may_be_named_by_its_file(tmp_path: Path) -> None:
    save(nan_in_backward(), tmp_path / "nan.json")

    report = gradscope.inspect(tmp_path / "nan.json")

    assert isinstance(report, gradscope.Report)
    assert isinstance(report.findings[0], gradscope.Finding)
    assert report.findings == gradscope.inspect(nan_in_backward()).findings
    assert report.findings[0].severity is gradscope.Severity.ERROR
