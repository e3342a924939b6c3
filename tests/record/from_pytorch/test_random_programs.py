"""Random programs on PyTorch, watched: they do what they do unwatched, in the order foretold."""

from __future__ import annotations

import pytest
from hypothesis import given

from gradscope.record.recorder import Options, Recording
from gradscope.trace.schema import GraphTask
from gradscope.trace.schema.tables import Order
from gradscope.trace.spec import check
from gradscope.trace.writer import MemoryWriter
from tests.programs import Program, outcome, programs
from tests.runtime.engines import same
from tests.shared.searching import searching

pytestmark = pytest.mark.torch


@pytest.mark.filterwarnings("ignore")
@searching(40)
@given(programs())
def test_a_watched_program_does_what_it_does_unwatched(program: Program) -> None:
    """Values, gradients, graphs, hook calls, errors; and the trace keeps every rule."""
    import torch

    from gradscope.record.from_pytorch.engine import PyTorch

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
