"""Which forward calls two traces share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradscope.analysis.likeness.compare import compare
from gradscope.analysis.likeness.same_calls import same_calls
from gradscope.trace.schema import NONE, Frame, Op, Stack
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of
from tests.shared.chains import chain


def with_calls(trace: Trace, *calls: tuple[str, int, str]) -> Trace:
    """The trace, and calls in order: each with the node that it made, if any, and its line."""
    rows = [row for table in trace.tables.values() for row in table.rows()]
    rows = [replace(row, op=NONE) if hasattr(row, "op") else row for row in rows]
    for place, (name, node, text) in enumerate(calls):
        frame = 50 + place
        rows += [Frame(frame, "net.py", frame, "", text), Stack(frame, frame)]
        rows.append(Op(place, name, begin=place, end=place, node=node, outputs=(90,), stack=frame))
    return trace_of(*rows)


def test_calls_are_the_same_by_their_nodes_and_those_without_one_by_name_and_line() -> None:
    one = with_calls(
        chain(Sin=1, Mul=1), ("sin", 0, "s"), ("rand", NONE, "r"), ("mul", 1, "m"),
        ("rand", NONE, "r"), ("item", NONE, "i"),
    )  # fmt: skip
    other = with_calls(
        chain(Mul=1, Log=1), ("rand", NONE, "r"), ("mul", 0, "m"), ("log", 1, "l"),
        ("rand", NONE, "other"), ("item", NONE, "i"),
    )  # fmt: skip

    same = same_calls(one, other, compare(one, other).same)

    assert same.in_other.tolist() == [1, 2, NONE, NONE, 4]
    assert same.in_one.tolist() == [NONE, 0, 1, NONE, 4]
    assert np.all(same.in_other[same.in_one[[1, 2, 4]]] == [1, 2, 4])
