"""When the memory of a storage is given back."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import gradscope.runtime as torch
from gradscope.record.recorder import record
from gradscope.trace.schema import NONE, GraphTask, Op, Storage, Tensor
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace

LARGE, SMALL = 1 << 16, 100  # elements: 256 KiB, 400 bytes


def storage_made_by(trace: Trace, name: str, number: int = 0) -> Storage:
    call = [op for op in trace.rows(Op) if op.name == name][number]
    return trace.table(Storage).row(trace.table(Tensor).row(call.outputs[0]).storage)


def test_a_large_storage_is_seen_to_go_and_what_is_held_stays() -> None:
    x = torch.ones(LARGE)
    with record() as recording:
        held = x * 2
        gone = x + 1
        before = recording.session.contexts.now()
        del gone
        after = recording.session.contexts.now()
        x - 1
    trace = recording.trace()

    assert before < storage_made_by(trace, "add").freed < after
    assert storage_made_by(trace, "mul").freed == NONE
    assert storage_made_by(trace, "sub").freed != NONE
    assert trace.table(Storage).row(0).freed == NONE
    assert check(trace) == []
    assert held is not None


def test_what_a_node_has_saved_lives_until_its_backward() -> None:
    x = torch.ones(LARGE, requires_grad=True)
    with record() as recording:
        loss = x.exp().sum()
        loss.backward()
    trace = recording.trace()

    [task] = trace.rows(GraphTask)
    assert task.begin < storage_made_by(trace, "exp").freed


def test_a_view_keeps_the_storage_it_looks_at() -> None:
    x = torch.ones(LARGE)
    with record() as recording:
        whole = x * 2
        part = whole[:5]
        del whole
        torch.zeros(1)
        between = recording.session.contexts.now()
        del part
    trace = recording.trace()

    assert storage_made_by(trace, "mul").freed > between


@pytest.mark.parametrize("level", ["engine", "graph", "values", "full"])
def test_the_trace_says_from_which_size_on_storages_are_followed(level: str) -> None:
    x, y = torch.ones(SMALL), torch.ones(LARGE)
    with record(level=level) as recording:
        x * 2
        y * 2
    trace = recording.trace()

    seen = [storage_made_by(trace, "mul", which).freed != NONE for which in (0, 1)]
    expected = {"graph": None, "engine": 1 << 18, "values": 0, "full": 0}[level]
    assert trace.meta.get("follows_from") == expected
    assert seen == [expected == 0, expected is not None]


def test_memory_that_numpy_borrowed_has_no_end() -> None:
    with record() as recording:
        x = torch.from_numpy(np.frombuffer(bytes(1 << 20), np.float32).copy()[:])
        y = torch.frombuffer(bytearray(1 << 20), dtype=torch.float32)
        x + 1
        y + 1
        del x, y
        gc.collect()
    trace = recording.trace()

    assert [row.freed != NONE for row in trace.rows(Storage)][0::2] == [True, False]


def test_nothing_is_followed_after_the_recording() -> None:
    x = torch.ones(LARGE)
    with record() as recording:
        frees = recording.session.source.frees
        y = x * 2
    del y

    assert frees.take() == []


def test_storages_go_in_a_compiled_recording_too() -> None:
    """After so many records calls are noted by C functions, but not those with large results."""
    x = torch.ones(LARGE)
    small = torch.ones(2)
    with record() as recording:
        for _ in range(20_000):
            small + 1
        x * 2
    trace = recording.trace()

    assert storage_made_by(trace, "mul").freed != NONE
