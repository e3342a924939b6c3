"""Where each thread is."""

from __future__ import annotations

import threading

import gradscope.runtime as torch
from gradscope.record.recorder import record
from gradscope.trace.schema import Node, Thread
from gradscope.trace.spec import check


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
