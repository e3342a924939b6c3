"""Rules 24 to 30: the order of a run, backwards inside backwards, callbacks, modes and threads."""

from __future__ import annotations

from typing import Any

import pytest

from gradscope.trace import schema
from gradscope.trace.run import Trace
from tests.runtime.autograd.both import leaf, raises
from tests.runtime.rules.conftest import Seen


@pytest.mark.rule(26)
def test_a_queued_callback_binds_to_the_innermost_running_task_fires_once_and_may_queue_more(
    torch: Any, seen: Seen
) -> None:
    queue = torch.autograd.Variable._execution_engine.queue_callback
    happened: list[str] = []

    def say(word: str, then: Any = None) -> Any:
        def said() -> None:
            happened.append(word)
            if then is not None:
                queue(then)

        said.__name__ = said.__qualname__ = word
        return said

    def during_inner(grad: Any) -> None:
        queue(say("inner ends"))

    def during_outer(grad: Any) -> None:
        queue(say("outer ends", then=say("one more")))
        with torch.enable_grad():
            y = leaf(torch, 1.0) * 3
        y.register_hook(during_inner)
        y.backward()
        happened.append("inner is over")

    x = leaf(torch, 1.0, 2.0)
    y = x * 2
    y.register_hook(during_outer)
    z = y.sum()
    z.backward(retain_graph=True)
    assert happened == ["inner ends", "inner is over", "outer ends", "one more"]

    x.register_post_accumulate_grad_hook(lambda leaf: happened.append("last node"))
    happened.clear()
    z.backward()
    assert happened == ["inner ends", "inner is over", "last node", "outer ends", "one more"]

    word = "Final callbacks can only be installed during backward pass."
    assert raises(RuntimeError, lambda: queue(say("never"))) == word

    def shows(trace: Trace) -> bool:
        ran = [(event.name, event.task) for event in trace.events(schema.Callback)]
        outer, inner, again, inner_again = (task.id for task in trace.rows(schema.GraphTask))
        every = list(trace.events(schema.Callback, schema.TaskEnd, schema.Accumulate, task=again))
        return [type(event).__name__ for event in every] == [
            "Accumulate",
            "Callback",
            "Callback",
            "TaskEnd",
        ] and ran == [
            ("inner ends", inner),
            ("outer ends", outer),
            ("one more", outer),
            ("inner ends", inner_again),
            ("outer ends", again),
            ("one more", again),
        ]

    seen(shows)


@pytest.mark.rule(26)
def test_an_error_in_a_callback_ends_the_backward_and_the_callbacks_behind_it(
    torch: Any, seen: Seen
) -> None:
    queue = torch.autograd.Variable._execution_engine.queue_callback
    happened: list[str] = []

    def wrong() -> None:
        happened.append("wrong")
        raise ValueError("not today")

    def hook(grad: Any) -> None:
        queue(wrong)
        queue(lambda: happened.append("behind"))

    x = leaf(torch, 1.0, 2.0)
    y = x * 2
    y.register_hook(hook)
    assert raises(ValueError, lambda: y.sum().backward()) == "not today"
    assert happened == ["wrong"]
    assert x.grad.tolist() == [2.0, 2.0]

    def fails(grad: Any) -> None:
        queue(lambda: happened.append("of a failed backward"))
        raise ValueError("earlier")

    y = x * 2
    y.register_hook(fails)
    assert raises(ValueError, lambda: y.sum().backward()) == "earlier"
    assert happened == ["wrong"]
    (x * 2).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]

    def shows(trace: Trace) -> bool:
        tasks = list(trace.rows(schema.GraphTask))
        called = [event.task for event in trace.events(schema.Callback)]
        return called == [tasks[0].id] and [bool(task.error) for task in tasks] == [
            True,
            True,
            False,
        ]

    seen(shows)
