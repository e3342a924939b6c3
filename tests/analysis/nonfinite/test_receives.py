"""Memory that a rank receives from another one may hold anything before."""

from __future__ import annotations

import pytest

from gradscope.analysis.nonfinite.births import Birth
from gradscope.analysis.nonfinite.receives import may_be_filled_later
from gradscope.trace.schema import NONE, Collective, Frame, Phase, Place, Span, Stack
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of


def called(name: str) -> Trace:
    """A program that calls this collective at line 7."""
    return trace_of(
        Frame(0, "train.py", 7, "", "schedule.step(x)"),
        Stack(0, 0),
        Span(0, name, Phase.COLLECTIVE, NONE, 0, NONE, 10, 20),
        Collective(0, NONE, 0),
    )


def birth(place: Place) -> Birth:
    return Birth(
        0, "NaN", place, NONE, NONE, 0, 3, NONE, 0, 1, 1, 4, 4, 0, 0, (0,),
        from_inf=False, unchecked=0,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["recv", "batch_isend_irecv, asynchronous"])
def test_a_leaf_made_at_a_line_that_receives_may_be_filled_later(name: str) -> None:
    trace = called(name)

    assert may_be_filled_later(trace, birth(Place.LEAF), "train.py:7")
    assert not may_be_filled_later(trace, birth(Place.LEAF), "train.py:8")
    assert not may_be_filled_later(trace, birth(Place.OP_OUTPUT), "train.py:7")


def test_other_collectives_fill_no_new_memory() -> None:
    assert not may_be_filled_later(called("all_reduce"), birth(Place.LEAF), "train.py:7")
