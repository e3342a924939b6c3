"""Long chains and nested backwards: nothing recurses over the graph."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

from tests.runtime.both import function, leaf, runtime

LONG = 200_000
LESS = 50_000


def chain(x: Any, length: int) -> Any:
    for _ in range(length):
        x = x + 1
    return x


def test_a_long_chain_is_built_run_and_freed(torch: Any) -> None:
    x = leaf(torch, 0.0)
    y = chain(x, LONG)
    y.backward()
    value = y.item()
    del y

    assert (value, x.grad.tolist()) == (LONG, [1.0])


def test_a_long_chain_is_freed_without_having_run(torch: Any) -> None:
    y = chain(leaf(torch, 0.0), LESS)
    before = sys.getrecursionlimit()
    del y

    assert sys.getrecursionlimit() == before


def test_a_long_chain_needs_no_deep_stack() -> None:
    """On a thread with a stack of 1 MB (Python 3.13 frees it with half of that)."""
    torch = runtime()
    x = leaf(torch, 0.0)
    before = threading.stack_size(1024 * 1024)
    try:
        done: list[Any] = []

        def run() -> None:
            y = chain(x, LESS)
            torch.autograd.grad(y, x, create_graph=True)
            y.backward(inputs=[x])
            del y
            done.append(x.grad.tolist())

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)

    assert done == [[1.0]]


def test_a_long_chain_with_hooks_and_inputs(torch: Any) -> None:
    x = leaf(torch, 0.0)
    middle = chain(x, 10_000)
    heard: list[float] = []
    middle.register_hook(lambda grad: heard.append(grad.item()))
    end = chain(middle, 10_000)

    assert torch.autograd.grad(end, x)[0].tolist() == [1.0]
    assert heard == [1.0]


def test_a_backward_inside_a_backward(torch: Any) -> None:
    def backward(ctx: Any, grad: Any) -> Any:
        with torch.enable_grad():
            x = torch.ones(1, dtype=torch.float64, requires_grad=True)
            (x * x).sum().backward()
        return grad * x.grad

    x = leaf(torch, 3.0)
    function(torch, lambda ctx, x: x * 1, backward).apply(x).backward()

    assert x.grad.tolist() == [2.0]


def nested(torch: Any, depth: int) -> Any:
    """A value whose backward runs another backward, `depth` deep."""

    def forward(ctx: Any, x: Any, left: int) -> Any:
        ctx.left = left
        return x * 1

    def backward(ctx: Any, grad: Any) -> Any:
        if not ctx.left:
            return grad, None
        with torch.enable_grad():
            x = torch.ones(1, dtype=torch.float64, requires_grad=True)
            mine.apply(x, ctx.left - 1).sum().backward()
        return grad * x.grad + 1, None

    mine = function(torch, forward, backward)
    return lambda x: mine.apply(x, depth)


@pytest.mark.parametrize("depth", [1, 10, 100, 150])
def test_backwards_nested_deeply(torch: Any, depth: int) -> None:
    x = leaf(torch, 3.0)
    nested(torch, depth)(x).backward()

    assert x.grad.tolist() == [depth + 1.0]


def test_two_thousand_backwards_inside_each_other(torch: Any) -> None:
    x = leaf(torch, 3.0)
    nested(torch, 2000)(x).backward()

    assert x.grad.tolist() == [2001.0]


def test_an_error_deep_inside_comes_out(torch: Any) -> None:
    def backward(ctx: Any, grad: Any) -> Any:
        with torch.enable_grad():
            x = leaf(torch, 1.0)
            function(torch, lambda ctx, x: x * 1, lambda ctx, grad: 1 / 0).apply(x).backward()
        return grad

    x = leaf(torch, 3.0)
    y = function(torch, lambda ctx, x: x * 1, backward).apply(x)

    with pytest.raises(ZeroDivisionError):
        y.backward()
    assert torch.is_grad_enabled()
    (x * 2).backward()
    assert x.grad.tolist() == [2.0]


def test_a_nested_backward_on_the_same_leaf(torch: Any) -> None:
    x = leaf(torch, 3.0)

    def backward(ctx: Any, grad: Any) -> Any:
        with torch.enable_grad():
            (x * x).backward()
        return grad

    function(torch, lambda ctx, x: x * 1, backward).apply(x).backward()

    assert x.grad.tolist() == [7.0]


def test_an_outer_node_that_is_ready_waits_for_the_inner_backward(torch: Any) -> None:
    heard: list[str] = []
    x = leaf(torch, 3.0)

    def backward(ctx: Any, grad: Any) -> Any:
        with torch.enable_grad():
            inner = leaf(torch, 1.0)
            z = inner * 2
            z.register_hook(lambda grad: heard.append("inner"))
            z.backward()
        heard.append("inner is done")
        return grad

    other = x * 5
    other.register_hook(lambda grad: heard.append("outer"))
    (other + function(torch, lambda ctx, x: x * 1, backward).apply(x)).backward()

    assert heard == ["inner", "inner is done", "outer"]
    assert x.grad.tolist() == [6.0]


def test_a_callback_runs_when_the_innermost_backward_is_over(torch: Any) -> None:
    heard: list[str] = []
    engine = torch.autograd.Variable._execution_engine

    def queue(name: str) -> Any:
        def hook(grad: Any) -> None:
            heard.append(f"{name} hook")
            engine.queue_callback(lambda: heard.append(f"{name} callback"))

        return hook

    def backward(ctx: Any, grad: Any) -> Any:
        with torch.enable_grad():
            x = leaf(torch, 1.0)
            y = x * 2
            y.register_hook(queue("inner"))
            y.backward()
        return grad

    x = leaf(torch, 1.0)
    y = function(torch, lambda ctx, x: x * 1, backward).apply(x)
    y.register_hook(queue("outer"))
    y.backward()

    assert heard == ["outer hook", "inner hook", "inner callback", "outer callback"]


def test_a_callback_may_queue_another(torch: Any) -> None:
    heard: list[str] = []
    engine = torch.autograd.Variable._execution_engine

    def first() -> None:
        heard.append("first")
        engine.queue_callback(lambda: heard.append("second"))

    x = leaf(torch, 1.0)
    x.register_hook(lambda grad: engine.queue_callback(first))
    (x * 2).backward()

    assert heard == ["first", "second"]


def test_a_callback_needs_a_running_backward(torch: Any) -> None:
    engine = torch.autograd.Variable._execution_engine

    with pytest.raises(RuntimeError, match="Final callbacks can only be installed during backward"):
        engine.queue_callback(print)


def test_threads_that_go_backward_into_the_same_leaf_lose_nothing(torch: Any) -> None:
    x = leaf(torch, 1.0)

    def work() -> None:
        for _ in range(200):
            (x * 2).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert x.grad.tolist() == [1600.0]


def test_threads_have_modes_of_their_own(torch: Any) -> None:
    seen: list[bool] = []
    with torch.no_grad():
        thread = threading.Thread(target=lambda: seen.append(torch.is_grad_enabled()))
        thread.start()
        thread.join()

    assert seen == [True]
