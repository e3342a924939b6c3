"""A rank that others wait for because it computes more, from traces made by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gradscope.analysis.findings import Severity
from gradscope.analysis.ranks.merging.merge import merged
from gradscope.analysis.ranks.training.data.heavier import heavier_ranks
from gradscope.analysis.report import inspect
from gradscope.trace.schema import (
    NONE,
    Accumulate,
    GraphTask,
    Op,
    ProcessGroup,
    Replicated,
    Step,
    Tensor,
)
from gradscope.trace.trace import Trace
from tests.analysis.ranks.several_ranks import MS
from tests.shared.by_hand import trace_of

STEPS, LASTS = 12, 100 * MS


def rank(
    number: int, length: int | Sequence[int], late: int = 0, names: Sequence[str] = "ab"
) -> Trace:
    """A rank of a replicated model that passes batches of this length to two operations.

    `late`: how long after the others it begins its backwards. In each step, if there are several
    lengths.
    """
    lengths = [length] * STEPS if isinstance(length, int) else [*length]
    rows = [
        ProcessGroup(0, "0", members=(0, 1)), Tensor(0, shape=(4,), name="weight"),
        Replicated(0, (0,)),
    ]  # fmt: skip
    events = []
    for step, many in enumerate(lengths):
        begin, first = step * LASTS, 1 + 2 * step
        rows.append(Step(step, step, begin, begin + LASTS))
        for at, name in enumerate(names):
            shape = (8, many) if at else (8,)
            rows.append(Tensor(first + at, op=first + at, shape=shape))
            rows.append(
                Op(
                    first + at,
                    name,
                    step=step,
                    begin=begin + at,
                    end=begin + at + 1,
                    outputs=(first + at,),
                )
            )
        task = begin + 10 * MS + late
        rows.append(GraphTask(step, begin=task, end=task + MS, step=step, parent=NONE))
        events.append(Accumulate(task=step, tensor=0, t=task + 1))
    return trace_of(*rows, *events, meta={"rank": number, "host": "one"})


def factors(*ranks: Trace) -> list[tuple[int, float]]:
    found = heavier_ranks(merged(ranks))
    return [(each.waited.rank, round(each.factor, 2)) for each in found]


def test_a_rank_with_longer_batches_that_others_wait_for_is_named() -> None:
    whole = merged([rank(0, 15), rank(1, 63, late=40 * MS)])

    [found] = heavier_ranks(whole)
    assert (found.waited.rank, found.waited.last, found.factor) == (1, STEPS - 2, 4.0)
    assert found.shapes == {1: (8, 63), 0: (8, 15)}
    [finding] = inspect(whole, rules=["slow-rank"]).findings
    assert finding.severity is Severity.NOTE
    assert "computes 4 times as many values in a step" in finding.message
    assert "[8, 63] on rank 1, [8, 15] on rank 0" in finding.message


@pytest.mark.parametrize(
    ("length", "late"),
    [
        pytest.param(63, 0, id="nobody waits"),
        pytest.param(63, 4 * MS, id="a short time"),
        pytest.param(15, 40 * MS, id="it computes as much: another reason"),
        pytest.param([15, 63] * (STEPS // 2), 40 * MS, id="in every other step only"),
    ],
)
def test_a_rank_is_left_out_if_it_is_not_late_or_computes_no_more(
    length: int | Sequence[int], late: int
) -> None:
    assert factors(rank(0, 15), rank(1, length, late)) == []


def test_ranks_that_call_other_operations_are_not_compared() -> None:
    assert factors(rank(0, 15), rank(1, 63, 40 * MS, names="ba")) == []
    assert factors(rank(0, 15), rank(1, 63, 40 * MS)) == [(1, 4.0)]
