"""`torch.futures`, as on PyTorch."""

from __future__ import annotations

from typing import Any

import pytest


def test_a_result_arrives_once_and_callbacks_get_it(torch: Any) -> None:
    futures = __import__(f"{torch.__name__}.futures", fromlist=["x"])
    future, seen = futures.Future(), []
    future.add_done_callback(lambda done: seen.append(done.value()))
    later = future.then(lambda done: done.value() + 1)

    assert not future.done()
    future.set_result(3)
    assert (future.done(), future.wait(), later.wait(), seen) == (True, 3, 4, [3])
    assert future.then(lambda done: -done.wait()).wait() == -3
    with pytest.raises(RuntimeError, match="mark a completed Future as complete again"):
        future.set_result(4)
    assert futures.wait_all([future, later]) == [3, 4]
    assert [each.value() for each in futures.collect_all([later, future]).wait()] == [4, 3]


def test_an_error_is_raised_where_it_is_waited_for(torch: Any) -> None:
    futures = __import__(f"{torch.__name__}.futures", fromlist=["x"])
    future = futures.Future()
    with pytest.raises(AssertionError, match="3 is of type <class 'int'>, not an Exception"):
        future.set_exception(3)
    future.set_exception(ValueError("broken"))

    assert future.done()
    with pytest.raises(ValueError, match="broken"):
        future.wait()
    unhappy = futures.Future()
    unhappy.set_result(0)
    with pytest.raises(Exception, match="division by zero"):
        unhappy.then(lambda done: 1 / done.value()).wait()
