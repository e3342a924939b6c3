"""Where each thread is."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

import gradscope.runtime as torch
from gradscope.record.notes.positions.contexts import Contexts
from gradscope.record.recorder import record
from gradscope.trace.schema import Node, Step, Thread
from gradscope.trace.spec import check
from gradscope.trace.writer import MemoryWriter


def test_threads_that_come_one_after_another_are_threads_of_their_own() -> None:
    """The system gives the id of a thread that has ended to the next one."""
    leaf = torch.ones(2, requires_grad=True)

    def work() -> None:
        (leaf * 2).sum().backward()

    with record() as recording:
        for name in ("first", "second", "third"):
            thread = threading.Thread(target=work, name=name)
            thread.start()
            thread.join()

    trace = recording.trace()
    names = {thread.id: thread.name for thread in trace.rows(Thread)}
    ran = [names[n.thread] for n in trace.rows(Node) if n.name == "SumBackward0"]
    assert ran == ["first", "second", "third"]
    assert check(trace) == []


def test_steps_are_found_by_their_moments_and_end_as_the_next_begin_however_often_one_asks() -> (
    None
):
    engine = SimpleNamespace(local=None, contexts_name_steps=False, threads=list)
    writer = MemoryWriter()
    contexts = Contexts(writer, 0, 0, cast("Any", engine), rank=0)
    looks = []
    for now in (10, 20, 30):
        contexts.steps.begin(now, at=contexts.now() + now)
        contexts.flush()
        begun = contexts.steps.recent[1][-1]
        looks.append(contexts.steps.at(np.array([begun - 1, begun])))
    contexts.finish()
    contexts.flush()

    steps = list(writer.trace().rows(Step))
    assert [found.tolist() for found in looks] == [[0, 1], [1, 2], [2, 3]]
    assert [step.end for step in steps[:-1]] == [step.begin for step in steps[1:]]
    assert [step.id for step in steps] == [0, 1, 2, 3]
