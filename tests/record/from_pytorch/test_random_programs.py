"""Random programs on PyTorch, watched: they do what they do unwatched, in the order foretold."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given

from gradscope.record.recorder import Options, Recording
from gradscope.trace.schema import GraphTask
from gradscope.trace.schema.tables import Order
from gradscope.trace.spec import check
from gradscope.trace.writer import MemoryWriter
from tests.programs import Program, Run, outcome, programs
from tests.runtime.engines import same
from tests.shared.searching import searching

pytestmark = pytest.mark.torch


MATRIX = ("matrix", True)
SUM = Run(
    roots=((0, "sum"),), wanted=None, fills=False, retain_graph=False, create_graph=False,
    unused="allowed", way="here",
)  # fmt: skip
A_BACKWARD_BEFORE_THE_FIRST_RUN_OF_ANOTHER = Program(
    leaves=(MATRIX, MATRIX),
    instructions=(
        ("view", "transposed", 0), ("hook", "inner", 2), *[("call", "add", 0, 0)] * 4,
    ),
    runs=(SUM, replace(SUM, roots=((6, "given"),), wanted=(0,))),
    watched=False,
)  # fmt: skip
A_HOOK_ON_A_VIEW_THAT_HAS_NO_HISTORY_ANY_MORE = Program(
    leaves=(MATRIX,),
    instructions=(
        *[("view", "transposed", 0)] * 2, ("call", "add", 0, 0), ("function", "swapped", 0, 0),
        ("write", "mul_", 2, 0), ("hook", "after a leaf", 0),
    ),
    runs=(SUM,),
    watched=False,
)  # fmt: skip
A_GRADIENT_MADE_IN_THE_RUN_OF_A_LEAF = Program(
    leaves=(MATRIX,),
    instructions=(),
    runs=(replace(SUM, roots=((0, "sum"), (0, "given with history")), create_graph=True), SUM),
    watched=True,
)

A_HOOK_ON_WHAT_WAS_MADE_A_LEAF = Program(
    leaves=(MATRIX,),
    instructions=(
        *[("call", "add", 0, 0)] * 6, ("hook", "looks", 0), ("change", "detach_", 0),
        ("change", "require", 0),
    ),
    runs=(SUM,),
    watched=False,
)  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@searching(40)
@given(programs())
@example(A_BACKWARD_BEFORE_THE_FIRST_RUN_OF_ANOTHER)
@example(A_HOOK_ON_A_VIEW_THAT_HAS_NO_HISTORY_ANY_MORE)
@example(A_GRADIENT_MADE_IN_THE_RUN_OF_A_LEAF)
@example(A_HOOK_ON_WHAT_WAS_MADE_A_LEAF)
def test_a_watched_program_does_what_it_does_unwatched(program: Program) -> None:
    """Values, gradients, graphs, hook calls, errors; and the trace keeps every rule."""
    import torch

    from gradscope.record.from_pytorch.pytorch_engine import PyTorch

    unwatched = outcome(torch, program)
    recording = Recording(MemoryWriter(), Options(), PyTorch())
    with recording:
        watched = outcome(torch, program)
        watcher = recording.session.source.watcher
    trace = recording.trace()

    assert watcher.faults.texts == {}
    for key in unwatched:
        assert same(watched.get(key), unwatched[key]), (key, watched.get(key), unwatched[key])
    assert check(trace) == []
    assert Order.OTHERWISE not in trace.table(GraphTask)["order"]
