"""Programs on PyTorch, watched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradscope.record.recording import Options, Recording
from gradscope.trace.schema import GraphTask
from gradscope.trace.schema.tables import Order
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace
from gradscope.trace.writer import MemoryWriter


def recorded(program: Callable[[], Any], level: str = "engine") -> tuple[Any, Trace]:
    """What a program returns, and its trace, which keeps all rules."""
    from gradscope.record.from_pytorch.pytorch_engine import PyTorch

    recording = Recording(MemoryWriter(), Options(level=level), PyTorch())
    with recording:
        result = program()
        session = recording.session
        faults = session.source.watcher.faults.texts  # type: ignore[union-attr]
    trace = recording.trace()
    assert faults == {}
    assert check(trace) == []
    return result, trace


def watched(program: Callable[[], Any], level: str = "engine") -> tuple[Any, Trace]:
    """The same, of a program whose order is the one foretold."""
    result, trace = recorded(program, level)
    wanted = Order.TOLD if level == "graph" else Order.FORETOLD
    assert set(trace.table(GraphTask)["order"].tolist()) <= {wanted}
    return result, trace
