"""Many threads at once: on shared leaves, on one freed graph, on graphs of their own."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gradscope.record.recorder import record
from gradscope.trace import schema
from gradscope.trace.spec import check
from tests.runtime.both import function, leaf, runtime
from tests.shared.searching import TIMES

FREED = "Trying to backward through the graph a second time"


@pytest.fixture(autouse=True)
def _hurried() -> Iterator[None]:
    """Threads take turns fifty times as often as usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


def together(count: int, work: Callable[[int], object]) -> list[BaseException]:
    """Let threads work at once, from one moment on; the errors they ended in."""
    errors: list[BaseException] = []
    ready = threading.Barrier(count)

    def run(number: int) -> None:
        ready.wait()
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


@pytest.mark.slow
@pytest.mark.search
def test_eight_threads_lose_no_gradient_of_twenty_thousand(torch: Any) -> None:
    x, y, half = leaf(torch, 1.0, 2.0), leaf(torch, 3.0), 1_250 * TIMES

    def work(number: int) -> None:
        for k in range(2 * half):
            if k % 2:
                (x * (number + 1)).sum().backward()
            else:
                ((x + y) * y.detach()).sum().backward()

    assert together(8, work) == []
    assert x.grad.tolist() == [half * (36 + 8 * 3.0)] * 2
    assert y.grad.tolist() == [half * 8 * 2 * 3.0]


def test_the_first_gradient_of_all_is_not_lost(torch: Any) -> None:
    """Whoever comes second adds to what the first one left, however close behind."""
    for _ in range(100):
        x, y = leaf(torch, 1.0), leaf(torch, 1.0)

        def work(number: int, x: Any = x, y: Any = y) -> None:
            (x * 2 + y * 3 + x * 5).backward()

        assert together(4, work) == []
        assert (x.grad.tolist(), y.grad.tolist()) == ([28.0], [12.0])


def test_hooks_of_a_shared_leaf_hear_every_backward(torch: Any) -> None:
    x, heard, after = leaf(torch, 1.0), [], []
    x.register_hook(lambda grad: heard.append(grad.item()))
    x.register_post_accumulate_grad_hook(lambda leaf: after.append(1))

    def work(number: int) -> None:
        for _ in range(200):
            (x * (number + 1)).backward()

    assert together(4, work) == []
    assert (sum(heard), len(heard), len(after)) == (2000.0, 800, 800)
    assert x.grad.tolist() == [2000.0]


def test_of_threads_on_one_graph_at_least_one_wins(torch: Any) -> None:
    for _ in range(60):
        x = leaf(torch, 0.5, 1.5)
        y = x
        for _ in range(20):
            y = (y * y).tanh().exp()
        total = y.sum()

        errors = together(6, lambda number, total=total: total.backward())

        assert len(errors) < 6
        assert all(type(error) is RuntimeError for error in errors)
        assert all(str(error).startswith(FREED) for error in errors), errors


def test_threads_on_one_graph_that_is_kept_all_win(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    total = (x * x * 3).sum()

    def work(number: int) -> None:
        for _ in range(100):
            total.backward(retain_graph=True)
            assert torch.autograd.grad(total, x, retain_graph=True)[0].tolist() == [6.0, 12.0]

    assert together(6, work) == []
    assert x.grad.tolist() == [3600.0, 7200.0]


def test_an_error_in_one_thread_is_no_other_threads(torch: Any) -> None:
    x = leaf(torch, 1.0)

    def backward(ctx: Any, grad: Any) -> Any:
        raise KeyError("mine")

    fails = function(torch, lambda ctx, x: x * 1, backward)

    def work(number: int) -> None:
        for _ in range(100):
            if number % 2:
                with pytest.raises(KeyError, match="mine"):
                    fails.apply(x * 2).backward()
                assert torch.is_grad_enabled()
            else:
                (x * 2).backward()

    assert together(4, work) == []
    assert x.grad.tolist() == [400.0]


def test_backwards_inside_backwards_in_several_threads(torch: Any) -> None:
    x = leaf(torch, 1.0)

    def forward(ctx: Any, x: Any, left: int) -> Any:
        ctx.left = left
        return x * 1

    def backward(ctx: Any, grad: Any) -> Any:
        if ctx.left:
            with torch.enable_grad():
                nested.apply(x, ctx.left - 1).backward()
        return grad, None

    nested = function(torch, forward, backward)

    assert together(4, lambda number: nested.apply(x, 100).backward()) == []
    assert x.grad.tolist() == [4 * 101.0]


def test_threads_that_write_modes_and_anomalies_disturb_nobody(torch: Any) -> None:
    seen: list[tuple[bool, bool]] = []

    def work(number: int) -> None:
        for _ in range(100):
            with torch.set_grad_enabled(number % 2 == 0):
                x = leaf(torch, 1.0)
                y = (x * 2).exp()
                seen.append((y.requires_grad, number % 2 == 0))
                if y.requires_grad:
                    y.backward()
                    assert torch.is_grad_enabled()

    assert together(6, work) == []
    assert all(found == wanted for found, wanted in seen)


def test_graphs_of_their_own_while_another_thread_records() -> None:
    """The recording has the backwards of all threads, each whole."""
    torch = runtime()
    steps, shared = 60, leaf(torch, 1.0)

    def train(number: int) -> None:
        x = leaf(torch, *[float(number)] * 3)
        for _ in range(steps):
            y = x
            for _ in range(5):
                y = (y * 0.5 + shared).tanh()
            y.register_hook(lambda grad: grad * 2)
            y.sum().backward()

    with record() as recording:
        assert together(4, train) == []
    trace = recording.trace()

    assert check(trace) == []
    tasks = list(trace.rows(schema.GraphTask))
    assert len(tasks) == 4 * steps
    assert len({task.thread for task in tasks}) == 4
    assert len(list(trace.events(schema.TaskEnd))) == 4 * steps
    assert len(list(trace.events(schema.HookBegin))) == 4 * steps


@pytest.mark.search
def test_recordings_come_and_go_while_threads_train() -> None:
    torch = runtime()
    go, done = threading.Event(), []

    def train(number: int) -> None:
        x = leaf(torch, 1.0)
        while not go.is_set():
            (x * 2).tanh().sum().backward()
            done.append(number)

    threads = [threading.Thread(target=train, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    violations = []
    try:
        for _ in range(12 * TIMES):
            with record() as recording:
                for _ in range(20):
                    leaf(torch, 1.0).exp().sum().backward()
            violations += check(recording.trace())
    finally:
        go.set()
        for thread in threads:
            thread.join()

    assert violations == []
    assert set(done) == {0, 1, 2}


@pytest.mark.slow
def test_all_states_are_found_while_threads_come_and_go() -> None:
    from gradscope.runtime.core.state.thread import ThreadState

    torch, go = runtime(), threading.Event()

    def come_and_go() -> None:
        while not go.is_set():
            thread = threading.Thread(target=torch.is_grad_enabled)
            thread.start()
            thread.join()

    threads = [threading.Thread(target=come_and_go) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        found = [list(ThreadState.all) for _ in range(20_000)]
    finally:
        go.set()
        for thread in threads:
            thread.join()

    assert all(each is not None for states in found for each in states)
