"""Whatever raises in the middle of a program, both engines are left alike, and as good as new."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from gradscope.record.recorder import record
from gradscope.runtime.core import probe
from gradscope.runtime.core.generated.first_call import LazyFunction
from gradscope.runtime.core.rows.operation import REGISTRY
from gradscope.runtime.core.state.thread import local
from gradscope.trace.spec import check
from tests.runtime.both import function, leaf, runtime
from tests.shared.searching import SEARCHING


class OnPurpose(BaseException):
    """Like KeyboardInterrupt: nobody handles it on the way."""


class Ticks:
    """Counts the calls of a program's callbacks, and raises at one of them."""

    def __init__(self, fatal: int = -1, kind: type[BaseException] = OnPurpose) -> None:
        self.fatal = fatal
        self.kind = kind
        self.heard: list[str] = []

    def __call__(self, name: str) -> None:
        self.heard.append(name)
        if len(self.heard) == self.fatal:
            raise self.kind(name)

    def hook(self, name: str) -> Callable[..., None]:
        return lambda *given: self(name)


def everything(torch: Any, tick: Ticks, leaves: list[Any]) -> None:
    """A program in which users' code runs wherever an engine calls any."""
    x, y = leaves
    engine = torch.autograd.Variable._execution_engine

    def forward(ctx: Any, value: Any) -> Any:
        tick("forward")
        ctx.save_for_backward(value)
        return value * 2

    def backward(ctx: Any, grad: Any) -> Any:
        tick("backward")
        with torch.enable_grad():
            inner = ctx.saved_tensors[0].detach().requires_grad_()
            out = inner * inner
            out.register_hook(tick.hook("inner tensor"))
            out.register_hook(lambda g: engine.queue_callback(tick.hook("inner callback")))
            out.sum().backward()
        tick("after the inner backward")
        return grad * inner.grad

    def packed(name: str) -> Any:
        def passes(way: str) -> Callable[[Any], Any]:
            return lambda tensor: (tick(f"{name} {way}"), tensor)[1]

        return torch.autograd.graph.saved_tensors_hooks(passes("pack"), passes("unpack"))

    @torch.no_grad()
    def numbers() -> Any:
        for _ in range(2):
            tick("generator")
            yield x * 2

    handles = [x.register_hook(tick.hook("leaf")), y.register_hook(lambda g: g + 1)]
    handles += [x.register_post_accumulate_grad_hook(tick.hook("accumulated"))]
    try:
        with packed("outer"):
            first = (x * y).exp()
            with packed("inner"):
                second = first.sin()
        third = function(torch, forward, backward).apply(first)
        first.register_hook(tick.hook("tensor"))
        first.register_hook(lambda g: engine.queue_callback(tick.hook("callback")))
        first.retain_grad()
        third.grad_fn.register_prehook(tick.hook("pre"))
        third.grad_fn.register_hook(tick.hook("post"))
        torch.autograd.graph.register_multi_grad_hook([second, third], tick.hook("several"))
        base = third * 3
        base[0].mul_(y[0])
        total = (base + second).sum()
        total.backward(retain_graph=True)
        torch.autograd.grad(total, [first, y], retain_graph=True)
        total.backward(inputs=[y], retain_graph=True)
        (slope,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        slope.register_hook(tick.hook("of a gradient"))
        slope.sum().backward()
        for each in numbers():
            assert not each.requires_grad
    finally:
        for handle in handles:
            handle.remove()


def left_behind(torch: Any, fatal: int, kind: type[BaseException]) -> Any:
    """What a program that raised leaves: what it heard, its error, its gradients; and the next."""
    leaves = [leaf(torch, 0.5, -0.25), leaf(torch, 1.5, 2.0)]
    tick, error = Ticks(fatal, kind), None
    try:
        everything(torch, tick, leaves)
    except (OnPurpose, ValueError) as raised:
        error = (type(raised).__name__, str(raised))
    assert torch.is_grad_enabled()
    kept = [None if x.grad is None else x.grad.tolist() for x in leaves]
    fresh = [leaf(torch, 0.5, -0.25), leaf(torch, 1.5, 2.0)]
    after = Ticks()
    everything(torch, after, fresh)
    return tick.heard, error, kept, after.heard, [x.grad.tolist() for x in fresh]


def callbacks() -> int:
    tick, torch = Ticks(), runtime()
    everything(torch, tick, [leaf(torch, 0.5, -0.25), leaf(torch, 1.5, 2.0)])
    return len(tick.heard)


def clean() -> None:
    """Nothing of a backward is left in this thread."""
    state = local.state
    assert state.grad_enabled
    assert state.task is None
    assert state.node is None
    assert state.reentrant_depth == 0
    assert not state.saved_hooks
    assert state.queue is None or not len(state.queue)


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("kind", [OnPurpose, ValueError])
def test_whichever_callback_raises_both_engines_leave_the_same_behind(
    kind: type[BaseException],
) -> None:
    import torch

    ours = runtime()
    for fatal in range(callbacks() + 1):
        found = left_behind(ours, fatal, kind)
        clean()
        assert found == left_behind(torch, fatal, kind)


@pytest.mark.slow
def test_whichever_callback_raises_the_trace_keeps_its_rules() -> None:
    torch = runtime()
    for fatal in range(1, callbacks() + 1):
        with record() as recording:
            left_behind(torch, fatal, OnPurpose)
        clean()
        assert check(recording.trace()) == [], fatal


# Interrupted while a watcher is told ---------------------------------------------------------

TOLD = (
    *("noted", "call", "op", "wrote", "accumulator"),
    *("ran", "sent", "popped", "node_begins", "node_ends", "node_failed", "skipped"),
    *("backward_begins", "backward_ends", "hook_begins", "hook_ends", "capture", "accumulate"),
    "called_back",
)


class Interrupting:
    """Raises when, or after, a watcher is told something of a kind for the n-th time."""

    def __init__(self, kind: str, fatal: int, *, before: bool) -> None:
        self.count, self.fatal, self.before = 0, fatal, before
        self.right = getattr(probe.here, kind)
        setattr(probe.here, kind, self)  # for as long as this recording lasts
        probe.take_callables(probe.here)

    def __call__(self, *what: Any, **named: Any) -> Any:
        self.count += 1
        if self.count == self.fatal and self.before:
            raise OnPurpose
        said = self.right(*what, **named)
        if self.count == self.fatal:
            raise OnPurpose
        return said


def interrupted(kind: str, fatal: int, *, before: bool) -> int:
    """How often a program tells something of this kind, unless it is interrupted at that."""
    torch = runtime()
    leaves = [leaf(torch, 0.5, -0.25), leaf(torch, 1.5, 2.0)]
    with record() as recording:
        told = Interrupting(kind, fatal, before=before)
        with suppress(OnPurpose):
            everything(torch, Ticks(), leaves)
        count = told.count
        clean()
        x = leaf(torch, 3.0)
        (x * x).sum().backward()
        assert x.grad.tolist() == [6.0]
    assert check(recording.trace()) == [], (kind, fatal, before)
    return count


@pytest.mark.search
@pytest.mark.parametrize("kind", TOLD)
def test_interrupted_while_a_watcher_is_told(kind: str) -> None:
    count = interrupted(kind, -1, before=False)

    assert count or kind == "node_failed"
    for fatal in range(1, count + 1, 1 if SEARCHING else 2):
        for before in (True, False) if SEARCHING else (fatal % 4 == 1,):
            interrupted(kind, fatal, before=before)


def test_a_backward_that_could_not_begin_is_not_run_by_the_next() -> None:
    """What it had queued is thrown away, by whichever engine thread."""
    torch = runtime()
    x, y = leaf(torch, 1.0), leaf(torch, 1.0)
    with record():
        Interrupting("backward_begins", 1, before=True)
        with pytest.raises(OnPurpose):
            (x * 2).backward()
        (y * 3).backward()

    assert x.grad is None
    assert y.grad.tolist() == [3.0]


def test_an_operation_whose_first_call_was_interrupted_can_be_called_again() -> None:
    """Its code is written at the first call."""
    torch = runtime()
    scope = REGISTRY["mul"].road.__globals__
    written, times = scope["unbuilt_short"], []

    def add_names(scope: dict[str, Any]) -> None:
        times.append(1)
        if len(times) == 1:
            raise OnPurpose
        written.add_names(scope)

    mul = LazyFunction("short", written.label, written.text, written.arguments, add_names).function(
        dict(scope)
    )

    with pytest.raises(OnPurpose):
        mul(torch.ones(2), torch.ones(2))
    assert mul(torch.ones(2), torch.ones(2)).tolist() == [1.0, 1.0]
