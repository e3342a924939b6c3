"""Random programs say the same of themselves on both engines."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import assume, given

from gradscope.trace.schema import GraphTask, Push
from gradscope.trace.schema.tables import Order
from gradscope.trace.trace import Trace
from tests.analysis.likeness.engines import lines, on_gradscope, on_pytorch
from tests.programs import Program, outcome, programs
from tests.shared.searching import searching

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

OTHERWISE = (
    # PyTorch knows no shape of a result without a gradient, and says () float32.
    (re.compile(r"(node \d+ MineBackward .*takes \([^)]*\) \w+).*"), r"\1"),
    # The node of a view is made anew when the program asks for it, after a write to its base.
    (re.compile(r"(node \d+ AsStridedBackward0) .*"), r"\1"),
)
"""What is said otherwise, and why."""

HOW = frozenset({"accumulate.how", "buffer_added.in_place"})
"""A seed without dims is handed on as a view in PyTorch, which `.grad` may be; here, as itself."""


def told(found: list[str]) -> Iterator[str]:
    for line in found:
        for pattern, instead in OTHERWISE:
            line = pattern.sub(instead, line)
        yield line


BUFFERS = ("  buffer_made ", "  buffer_added ")
"""What is not known of backwards with None among their gradients."""


def told_of(trace: Trace) -> set[int]:
    """The backwards of which it is told what the engine did."""
    return set(trace.table(Push)["task"].tolist())


@searching(25)
@given(programs())
def test_a_random_program_is_told_alike_on_both_engines(program: Program) -> None:
    """But for backwards that fail, and for tensors that are detached or ask for no gradient any
    more when a backward comes to them.
    """
    assume(not any(instruction[0] == "change" for instruction in program.instructions))
    ours = on_gradscope(lambda torch: outcome(torch, program))
    assume(not any(task.error for task in ours.rows(GraphTask)))
    theirs = on_pytorch(lambda torch: outcome(torch, program))
    orders = theirs.table(GraphTask)["order"].tolist()
    assert set(orders) <= {Order.FORETOLD, Order.NOT_THE_SUMS}
    assert told_of(theirs) == {row.id for row in theirs.rows(GraphTask)}

    one, other = lines(theirs, ours, without=HOW), lines(ours, theirs, without=HOW)
    if Order.NOT_THE_SUMS in orders:
        one, other = (
            [line for line in found if not line.startswith(BUFFERS)] for found in (one, other)
        )
    assert list(told(one)) == list(told(other))
