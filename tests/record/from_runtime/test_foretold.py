"""What our engine does with counts and queue is what a replay of the graph says, event by event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradscope.runtime as torch
from gradscope.record.recorder import record
from gradscope.trace import schema
from gradscope.trace.spec import check
from gradscope.trace.spec.checked_trace import CheckedTrace
from gradscope.trace.spec.foretold import compared
from gradscope.trace.trace import Trace


def recorded(program: Callable[[], Any]) -> Trace:
    with record() as recording:
        program()
    return recording.trace()


def leaves(count: int) -> list[Any]:
    return [torch.full((3,), float(n), requires_grad=True) for n in range(1, count + 1)]


def product(of: list[Any]) -> Any:
    made = of[0]
    for each in of[1:]:
        made = made * each
    return made.sum()


def several_roots() -> None:
    x = leaves(5)
    torch.autograd.backward([product(x), product(x[1:]), x[0].sum()])


def certain_inputs() -> None:
    x = leaves(6)
    middle = x[0] * x[1]
    loss = product([middle, *x[2:]])
    torch.autograd.grad(loss, [x[3], middle, x[3]], retain_graph=True)
    torch.autograd.grad(loss, [x[0]], retain_graph=True, create_graph=True)
    torch.autograd.grad(loss, [leaves(1)[0]], retain_graph=True, allow_unused=True)
    loss.backward(inputs=[x[1], x[5]])


def twice() -> None:
    x = leaves(3)
    (first,) = torch.autograd.grad(product(x), [x[0]], create_graph=True)
    (first**2).sum().backward()


class Halves(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        return x + y, x - y

    @staticmethod
    def backward(ctx: Any, first: Any, second: Any) -> Any:
        return first, None


def undefined_gradients() -> None:
    x, y, z = leaves(3)
    above, below = Halves.apply(x * z, y * z)
    (above * below * y).sum().backward()
    again, _ = Halves.apply(x * z, x * y)
    (again * x).sum().backward()


def inside(levels: int, width: int) -> None:
    """Backwards inside backwards, while leaves of those around wait in the queue."""
    around, own = leaves(width), leaves(width + 1)

    def hook(grad: Any) -> None:
        if levels:
            with torch.enable_grad():
                inside(levels - 1, width + 1)

    own[-1].register_hook(hook)
    joined = torch.stack([each * each for each in own] + [each + 1 for each in around])
    joined.sum().backward()


def nested() -> None:
    inside(3, 4)


def in_a_callback() -> None:
    @torch.enable_grad()
    def last() -> None:
        several_roots()

    def hook(grad: Any) -> None:
        torch.autograd.Variable._execution_engine.queue_callback(last)

    (x,) = leaves(1)
    x.register_hook(hook)
    (x * 2).sum().backward()


PROGRAMS = [
    several_roots, certain_inputs, twice, undefined_gradients, nested, in_a_callback,
]  # fmt: skip


def test_every_event_of_a_backward_follows_from_its_graph() -> None:
    for program in PROGRAMS:
        trace = recorded(program)

        assert check(trace) == [], program.__name__
        assert compared(CheckedTrace(trace)) == set(trace.table(schema.GraphTask)["id"].tolist())


def test_backwards_that_failed_or_ran_on_several_devices_are_not_compared() -> None:
    def fails() -> None:
        x = leaves(2)
        x[0].register_hook(lambda grad: 1 / 0)
        try:
            product(x).backward()
        except ZeroDivisionError:
            several_roots()

    def on_devices() -> None:
        x = torch.ones(2, requires_grad=True)
        (x.to("sim:0") * 2).sum().backward()

    trace = recorded(fails)
    assert check(trace) == []
    assert len(trace.table(schema.GraphTask)) == 2
    assert len(compared(CheckedTrace(trace))) == 1
    assert compared(CheckedTrace(recorded(on_devices))) == set()
