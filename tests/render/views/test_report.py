from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given

from gradscope.analysis.report import Unchecked, inspect
from gradscope.analysis.rules import all_rules
from gradscope.analysis.rules.registry import require
from gradscope.render.reports.json import report_json
from gradscope.render.terminal.cells import UNICODE
from gradscope.render.views.report import report_lines, rule_lines
from gradscope.render.views.tables import facts_lines, table_lines
from gradscope.scene.table_scenes import info_facts, info_tables
from gradscope.trace.schema import GraphTask, Node, Op, Push
from gradscope.trace.schema.tables import Order
from tests.render.hostile import named, names
from tests.render.views.test_timeline import text_of
from tests.shared.by_hand import trace_of
from tests.shared.example_traces import mean_of_squares, nan_in_backward, two_layers

FIRST = ("GS101", "GS201", "GS301", "GS302", "GS303", "GS304")
"""Rules that are named here, so that a new one changes no golden."""


def test_the_report_is_as_it_was_reviewed(golden: Callable[[str, str], None]) -> None:
    golden(
        "report_nan.txt",
        text_of(report_lines(inspect(nan_in_backward(), rules=FIRST), 100, UNICODE, 8)),
    )
    golden(
        "report_clean.txt",
        text_of(report_lines(inspect(two_layers(2), rules=FIRST), 70, UNICODE, 2)),
    )


def test_the_report_for_programs_is_as_it_was_reviewed(golden: Callable[[str, str], None]) -> None:
    golden("report_nan.json", report_json(inspect(nan_in_backward(), rules=FIRST), ("a note",)))


def test_findings_that_are_not_shown_are_counted() -> None:
    report = inspect(nan_in_backward(), rules=FIRST)
    (first,) = report.findings
    again = replace(first, message="Inf first produced in the backward of PowBackward0 (nan.py:4)")
    text = text_of(report_lines(replace(report, findings=(first, again)), 100, UNICODE, 1))

    assert "6 rules checked, 2 errors found; 1 of them not shown, use --rows N for more" in text
    assert "SqrtBackward0" in text
    assert "PowBackward0 (nan.py:4)" not in text


def test_nothing_found_is_said_with_what_could_not_be_looked_for() -> None:
    text = text_of(report_lines(inspect(mean_of_squares(), rules=FIRST), 100, UNICODE, 8))

    assert "5 rules checked, no problems found\n" in text
    assert "not checked: values of results and gradients (NaN/Inf); use --level values (" in text
    assert text.endswith("5 rules checked, no problems found\n"), "the verdict is what is seen last"


def test_a_level_that_was_too_low_is_the_reason_even_where_what_is_read_is_absent() -> None:
    trace = mean_of_squares()
    trace.meta["absent"] = ["value"]

    (unchecked,) = inspect(trace, rules=FIRST).unchecked

    assert (unchecked.needs, unchecked.lacks) == ("values", ())


@given(names)
def test_whatever_a_program_names_the_report_for_programs_is_json(name: str) -> None:
    document = json.loads(report_json(inspect(named(name)), ()))

    assert [finding["rule"] for finding in document["findings"]] == ["GS301"]


def test_a_rule_explains_itself(golden: Callable[[str, str], None]) -> None:
    golden("explain.txt", text_of(rule_lines(require(all_rules(), "GS201"), 80, UNICODE)))


def test_info_says_what_a_file_is_and_holds(golden: Callable[[str, str], None]) -> None:
    trace = trace_of(
        Node(0, "A"),
        Push(),
        meta={
            "producer": "gradscope",
            "producer_version": "0.1.0",
            "script": "train.py",
            "arguments": ["--lr", "0.1"],
            "level": "engine",
            "host": "box",
            "seeds": {"torch": 0},
            "observed": ["push", "pop"],
        },
    )
    trace.notes = ("truncated: 1 events recovered, 7 bytes lost",)
    lines = [*facts_lines(info_facts(trace, "t.json", 2_048), 100, UNICODE)]
    for table in info_tables(trace):
        lines += table_lines(table, 100, UNICODE)

    golden("info.txt", text_of(lines))


def test_info_says_of_how_many_backwards_the_sums_are_not_those_foretold() -> None:
    trace = trace_of(GraphTask(0, order=Order.NOT_THE_SUMS), GraphTask(1, order=Order.FORETOLD))

    facts = dict(info_facts(trace, "t.json", 2_048).facts)

    assert facts["complete"] == "yes"
    assert facts["note"].startswith("1 backward added fewer gradients than predicted")
    assert facts["note"].endswith("which were added is not known there")


@pytest.mark.parametrize(
    ("rows", "code", "verdict"),
    [
        ((), 0, "nothing was recorded (5 rules checked)"),
        ((), 3, "nothing was recorded (5 rules checked); the script ended with exit code 3"),
        ((Op(0, "ones"),), 0, "no autograd graph was recorded (5 rules checked)"),
    ],
)
def test_an_empty_recording_is_not_sold_as_clean(
    rows: tuple[Op, ...], code: int, verdict: str
) -> None:
    trace = trace_of(*rows, meta={"level": "engine", "exit_code": code})
    text = text_of(report_lines(inspect(trace, rules=FIRST), 100, UNICODE, 8))

    assert text.splitlines()[-1].rstrip() == verdict


@pytest.mark.parametrize(
    ("lacks", "reason"),
    [
        (("the first steps",), "the first steps were not recorded"),
        (("all rows",), "some rows were not recorded"),
        (("act",), "act was not recorded"),
        (("act", "the first steps"), "act and the first steps were not recorded"),
    ],
)
def test_what_a_rule_lacks_is_said_in_words(lacks: tuple[str, ...], reason: str) -> None:
    assert Unchecked("GS503", "stepped-too-early", "engine", lacks).reason == reason
