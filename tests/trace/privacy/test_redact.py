"""A redacted trace holds the events, and nothing of what is removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradscope.analysis.report import inspect
from gradscope.trace.load_save import encode, load
from gradscope.trace.privacy.redact import redacted
from gradscope.trace.schema import (
    Act,
    Error,
    Finding,
    Frame,
    Module,
    Node,
    Source,
    Stack,
    Tensor,
    WarningAct,
)
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of

GALLERY = Path(__file__).parents[3] / "docs" / "gallery"
TRACES = sorted(GALLERY.glob("*.json*"))
PRIVATE = {
    "script": "/home/ann/proj/train.py", "cwd": "/home/ann/proj", "host": "anns-laptop",
    "pid": 4711, "arguments": ["--data", "/mnt/patients.csv"], "exit": "ValueError: bad patient 7",
    "level": "engine", "producer": "pytorch",
    "children": [{"kind": "fork", "line": "/home/ann/other/run.py:3", "count": 1, "pids": [4712]}],
}  # fmt: skip


def private_trace() -> Trace:
    return trace_of(
        Frame(0, "train.py", 3, "Net.forward", "patients = load('/mnt/patients.csv')"),
        Frame(1, "/home/ann/lib/train.py", 4, "load", "x = 1"),
        Frame(2, "/usr/lib/python3.11/site-packages/torch/nn/functional.py", 5, "relu", "return"),
        Stack(0, 0), Stack(1, 1, 0), Stack(2, 2, 1),
        Source(0, "train.py", "patients = load('/mnt/patients.csv')\n"),
        Module(0, "", "PatientNet"), Module(1, "ward.3", "Linear", 0),
        Tensor(0, name="ward.3.weight"), Tensor(1, name="ward.bias"),
        Node(0, "ExpBackward0", stack=0), Error(type="ValueError", message="bad patient 7"),
        Finding(0, "exception", "ValueError: bad patient 7", stack=0),
        Act(0, "warning"), WarningAct(0, "UserWarning", "patient 7 is odd"),
        meta=PRIVATE,
    )  # fmt: skip


def text_of(trace: Trace) -> str:
    return encode(trace).decode()


@pytest.mark.parametrize("rename", [False, True])
def test_nothing_private_is_left(rename: bool) -> None:
    left = text_of(redacted(private_trace(), rename=rename))

    for word in ("/home", "ann", "/mnt", "patients.csv", "patient 7", "4711", "4712", "load("):
        assert word not in left.replace("channel", ""), word


def test_events_lines_and_names_stay() -> None:
    given = private_trace()

    left = redacted(given)

    assert [*left.rows(Node)] == [*given.rows(Node)]
    assert [frame.line for frame in left.rows(Frame)] == [3, 4, 5]
    assert [frame.file for frame in left.rows(Frame)] == [
        "train.py", "other/train.py", "lib/python3.11/site-packages/torch/nn/functional.py",
    ]  # fmt: skip
    assert [tensor.name for tensor in left.rows(Tensor)] == ["ward.3.weight", "ward.bias"]
    assert [error.message for error in left.rows(Error)] == ["(removed)"]
    assert [found.message for found in left.rows(Finding)] == ["ValueError: (removed)"]
    assert (left.meta["script"], left.meta["exit"]) == ("train.py", "ValueError: (removed)")
    assert left.meta["left_out"] == ["arguments", "source"]
    assert left.meta["redacted"] == "secrets"


def test_renamed_names_are_alike_where_they_were_alike() -> None:
    left = redacted(private_trace(), rename=True)

    (root, ward), (weight, bias) = left.rows(Module), left.rows(Tensor)
    assert ward.type == "Linear"
    assert weight.name == f"{ward.path}.weight"
    assert bias.name == f"{ward.path.partition('.')[0]}.bias"
    assert root.type.startswith("name")
    assert "Patient" not in text_of(left)
    assert [frame.file for frame in left.rows(Frame)][:2] == ["file1.py", "file2.py"]


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name)
def test_a_recorded_trace_keeps_its_rules_and_findings(path: Path) -> None:
    given = load(path)

    left = redacted(given, rename=True)

    assert check(left) == []
    assert left.event_count == given.event_count
    found = [(each.rule, each.severity) for each in inspect(given).findings]
    assert [(each.rule, each.severity) for each in inspect(left).findings] == found
    assert text_of(redacted(left, rename=True)).count("name") == text_of(left).count("name")
