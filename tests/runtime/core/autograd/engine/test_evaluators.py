"""Nodes are evaluated by code of their class: a copy where somebody watches, a text where not.

See the Notes in evaluators.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradscope.runtime as torch
from gradscope.runtime.core import probe
from gradscope.runtime.core.autograd.engine import engine, evaluators
from gradscope.runtime.core.autograd.engine.accumulate_grad import AccumulateGrad
from gradscope.runtime.core.autograd.engine.evaluate import evaluate_function
from gradscope.runtime.core.autograd.engine.evaluators import Watched, unwatched, watched
from gradscope.runtime.core.graph import input_buffer


def test_classes_that_have_run_have_copies_of_the_same_code() -> None:
    x = torch.ones(3, requires_grad=True)
    made = x.tanh().exp()
    exp, tanh = type(made.grad_fn), type(made.grad_fn.next_functions[0][0])
    made.sum().backward()
    copies = [watched[kind] for kind in (exp, tanh)]
    texts = [unwatched[kind] for kind in (exp, tanh)]

    assert copies[0].__code__ is not copies[1].__code__
    assert {copy.__code__ for copy in copies} == {evaluate_function.__code__}
    assert all(copy.__globals__ is evaluate_function.__globals__ for copy in copies)
    assert texts[0].__code__ is not texts[1].__code__
    assert {text.__code__ for text in texts}.isdisjoint(copy.__code__ for copy in copies)
    assert all(text.__globals__ is evaluate_function.__globals__ for text in texts)
    assert x.grad is not None


def test_only_operations_whose_nodes_return_as_many_gradients_have_texts() -> None:
    x = torch.ones(2, 2, requires_grad=True)

    def kind(made: Any) -> type:
        return type(made.grad_fn)

    found = [kind(x.tanh()), kind(x * x), kind(torch.addmm(x, x, x)), kind(torch.stack([x, x]))]
    assert [*map(evaluators.gradients, found)] == [1, 2, 3, 0]
    assert not evaluators.gradients(AccumulateGrad)
    assert unwatched[AccumulateGrad] is evaluators.accumulate


def test_whoever_listens_to_a_leaf_is_told_while_nobody_watches() -> None:
    def heard(listen: Any) -> list[str]:
        x, told = torch.ones(3, requires_grad=True), list[str]()
        node = (x * 1).grad_fn.next_functions[0][0]
        assert type(node) is AccumulateGrad
        listen(x, node, lambda *_: told.append("called"))
        for _ in range(2):
            (x * 2).sum().backward()
        assert x.grad.tolist() == [4, 4, 4]
        return told

    ways = [
        lambda x, node, hook: x.register_hook(hook),
        lambda x, node, hook: x.register_post_accumulate_grad_hook(hook),
        lambda x, node, hook: node.register_hook(hook),
        lambda x, node, hook: node.register_prehook(hook),
    ]
    assert heard(lambda *_: None) == []
    assert [heard(way) for way in ways] == [["called"] * 2] * 4


def programs() -> list[Callable[[Any, Any], Any]]:
    return [
        lambda x, w: (torch.tanh(x @ w) + x).sum(),
        lambda x, w: (x * x + w).mul(0.5).sum(),  # one node twice
        lambda x, w: torch.addmm(w, x, x.t()).exp().mean(),
        lambda x, w: (x.sum(0) * w).sum() + (x[0] + w).relu().sum(),  # broadcast
        lambda x, w: sum(part.sum() * k for k, part in enumerate((x @ w).unbind(), 2)),
        lambda x, w: (x.double() * w.double()).sum(),
        lambda x, w: torch.cat([x.sin(), w, x]).cumsum(0).sum(),
        lambda x, w: (x.detach() * w + x.detach()).sum(),  # gradients that nobody wants
        lambda x, w: (x + w).svd()[1].sum(),  # some outputs without gradients
        lambda x, w: (x + x).add(x + x).mul(w + w).sum(),  # handed on as they are
    ]


@pytest.mark.parametrize("number", range(len(programs())))
def test_texts_do_what_the_function_does(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    probe.leave(None)  # where another test has just recorded, somebody stands in for a moment
    program, sums = programs()[number], []

    def spied(*given: Any) -> Any:
        sums.append(len(given))
        return np.add(*given)

    monkeypatch.setattr(input_buffer, "sum_into", spied)

    def run() -> list[Any]:
        sums.clear()
        x = torch.arange(9.0).reshape(3, 3).div(7).requires_grad_()
        w = torch.arange(9.0).reshape(3, 3).sub(4).requires_grad_()
        loss = program(x, w)
        for _ in range(2):
            loss.backward(retain_graph=True)
        grads = [None if t.grad is None else (t.grad.tolist(), t.grad.stride()) for t in (x, w)]
        loss.backward()
        with pytest.raises(RuntimeError, match="second time"):
            (loss * loss).backward()
        return [*grads, *sums]

    by_texts = run()
    monkeypatch.setattr(engine, "unwatched", Watched())
    assert run() == by_texts


class Watcher:
    """Notes which nodes it is told of."""

    look = replays = None

    def __init__(self) -> None:
        self.told: list[str] = []

    def clock(self) -> int:
        return 0

    def ran(self, begin: int, ended: int, task: Any, node: Any, *more: Any) -> None:
        self.told.append(node.name())

    def __getattr__(self, name: str) -> Any:
        return lambda *told, **more: None


def test_who_comes_to_watch_in_the_middle_is_told_of_the_next_node() -> None:
    x, watcher = torch.ones(3, requires_grad=True), Watcher()

    class Begins(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            probe.watch(watcher, calls=False)
            return grad

    class Ends(Begins):
        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            probe.leave(None)
            return grad

    try:
        Begins.apply(Ends.apply(x.exp()).tanh().sin()).cos().sum().backward()
    finally:
        probe.leave(None)

    assert watcher.told == ["SinBackward0", "TanhBackward0"]
    assert x.grad is not None
