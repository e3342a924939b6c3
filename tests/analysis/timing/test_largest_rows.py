"""The samples with the largest parts of the gradient in one step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gradscope.analysis.timing.largest_rows import largest_rows
from gradscope.trace.schema import Act, BatchAct, Op, Row, RowSharesAct, Tensor
from tests.shared.by_hand import trace_of

MANY = 8
SHARES = RowSharesAct(1, node=1, many=MANY, largest=(5, 2, 0), shares=(0.62, 0.31, 0.01))
CALL = Op(1, "addmm", inputs=(1, 2, 3), outputs=(4,), node=1)
BATCH = BatchAct(0, samples=tuple(range(70, 70 + MANY)), many=MANY)


def said(*others: Row, shares: RowSharesAct = SHARES, batch: BatchAct = BATCH) -> str:
    """Of a step in which a linear layer was called with a batch."""
    return largest_rows(
        trace_of(
            Tensor(1, name="fc.bias", shape=(4,), leaf=True, requires_grad=True),
            Tensor(2, shape=(MANY, 3)),
            Tensor(3, name="fc.weight", shape=(3, 4), leaf=True, requires_grad=True),
            Tensor(4, shape=(MANY, 4), requires_grad=True, op=1),
            CALL, Act(0, batch.KIND, step=7, t=1), batch,
            Act(1, shares.KIND, step=7, t=5, task=0), shares, *others,
        ),
        7,
    )  # fmt: skip


def test_the_samples_that_stand_out_are_named_with_their_shares() -> None:
    one = replace(SHARES, shares=(0.93, 0.03, 0.01))

    assert said(shares=one) == (
        "93% of the gradient of fc.weight came from sample 75 of the data set (by the squared "
        "norms of 8 samples)"
    )
    assert "62% of the gradient of fc.weight came from sample 75 of the data set" in said()
    many = replace(SHARES, shares=(0.5, 0.5, 0.0))
    assert "came from sample 75 and 50% from sample 72 of the data set" in said(shares=many)


def test_where_none_stands_out_the_largest_share_is_said() -> None:
    even = replace(SHARES, shares=(0.2, 0.2, 0.1))

    assert said(shares=even).startswith("at most 20% of the gradient of fc.weight came from one")


def test_rows_that_are_not_known_to_be_samples_are_rows() -> None:
    other = replace(BATCH, samples=(1, 2), many=2)

    assert "came from row 5 of the input" in said(batch=other)


def test_a_weight_that_is_used_twice_in_one_backward_is_left_out() -> None:
    again = replace(SHARES, id=2)

    assert said(Act(2, again.KIND, step=7, t=6, task=0), again) == ""


def test_another_step_has_no_largest_rows() -> None:
    assert largest_rows(trace_of(Act(1, SHARES.KIND, step=6), SHARES), 7) == ""


@pytest.mark.parametrize(
    "damage", [{"shares": ()}, {"shares": (), "largest": ()}, {"largest": (5, 8, 0)}, {"many": 0}]
)
def test_damaged_rows_are_left_out(damage: dict[str, Any]) -> None:
    assert said(shares=replace(SHARES, **damage)) == ""
