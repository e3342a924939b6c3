"""Processes of their own for what changes the engine for good.

    python -m tests.faults.on_devices SECONDS NAME ...

Simulated devices make the engine take its other way, with threads. Each fault is planted in a fork
of this process. Prints what was noticed of each, as JSON; one that takes longer hangs.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any, BinaryIO

import pytest

import gradscope.runtime as torch
from gradscope.record.recorder import record
from gradscope.trace.spec import check
from tests.faults.detectors.common import leaf, refused, same
from tests.faults.faults.threads import THREADS


def on(device: str, *values: float) -> Any:
    return leaf(torch, *values).detach().to(device).requires_grad_()


def mixed() -> tuple[list[Any], Any]:
    a, b, c = on("sim:0", 1.0, 2.0), on("sim:1", 3.0, 4.0), on("cpu", 5.0, 6.0)
    product = (a * 2).to("cpu") * c + (b * 3).to("cpu") * c
    return [a, b, c], (product + (a + a).to("cpu")).sum()


def gradients_of_several_devices() -> None:
    (a, b, c), root = mixed()
    root.backward()
    same(a.grad, 12.0, 14.0)
    same(b.grad, 15.0, 18.0)
    same(c.grad, 11.0, 16.0)
    assert [str(x.grad.device) for x in (a, b, c)] == ["sim:0", "sim:1", "cpu"]


def each_device_has_its_thread() -> None:
    leaves, root = mixed()
    ran: list[str] = []
    for x in leaves:
        x.register_hook(lambda grad: ran.append(threading.current_thread().name))
    root.backward()
    here = threading.current_thread().name
    assert sorted(ran) == sorted(["sim:0", "sim:1", here]), ran


def modes_go_along_and_come_back() -> None:
    seen: list[Any] = []

    def look(grad: Any) -> None:
        seen.append(torch.is_grad_enabled())
        (on("sim:0", 3.0) ** 2).sum()

    for create_graph in (False, True):
        x = on("sim:0", 1.0)
        x.register_hook(look)
        packed: list[str] = []

        def pack(tensor: Any, packed: list[str] = packed) -> Any:
            packed.append(threading.current_thread().name)
            return tensor

        y = (x * 2).sum()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            torch.autograd.grad(y, x, create_graph=create_graph)
        assert ("sim:0" in packed) == create_graph, packed
        (x * 2).sum().backward()
    assert seen == [False, False, True, False], seen


def errors_come_out_of_workers() -> None:
    later: list[str] = []

    def broken(grad: Any) -> None:
        raise ValueError("on purpose")

    x = on("sim:0", 1.0)
    first = x * 2
    first.register_hook(lambda grad: later.append("ran on"))
    y, other = first * 3, on("sim:0", 1.0) * 5
    other.register_hook(lambda grad: later.append("ran on"))
    last = y * 7
    last.register_hook(broken)
    refused("on purpose", (last + other).sum().backward, ValueError)
    assert later == []
    gradients_of_several_devices()


def anomalies_are_found_by_workers() -> None:
    x = leaf(torch, 0.0)  # the threads' way, now that there are devices
    made_before = ((x * 0) ** 0.5 * 0).sum()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly():
            refused("returned nan values", made_before.backward)
    y, far = leaf(torch, 1.0), on("sim:0", 1.0)
    made_before = ((y * 0) ** 0.5 * 0).sum() + (far * 2).sum().cpu()  # NaN beside a device
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly():
            refused("returned nan values", made_before.backward)


def gradients_fit_on_devices() -> None:
    row, column = on("sim:0", 1.0, 2.0), on("sim:0", 1.0, 2.0)
    (row * column.reshape(2, 1)).sum().backward()
    same(row.grad, 3.0, 3.0)


def only_what_is_needed_runs() -> None:
    heard: list[str] = []
    a, b = on("sim:0", 1.0), on("sim:0", 2.0)
    side = a * 2
    side.register_hook(lambda grad: heard.append("side"))
    (found,) = torch.autograd.grad((side * b).sum(), [b])
    same(found, 2.0)
    assert heard == []


def the_inner_backward_goes_first() -> None:
    order: list[str] = []

    class Nested(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            with torch.enable_grad():
                inner.sum().backward()
            order.append("inner is done")
            return grad

    x, old = on("sim:0", 1.0), on("sim:0", 1.0)
    inner = old * 2
    inner.register_hook(lambda grad: order.append("inner"))
    outer = x * 5
    outer.register_hook(lambda grad: order.append("outer"))
    (outer + Nested.apply(x)).sum().backward()
    assert order == ["inner", "inner is done", "outer"], order
    same(x.grad, 6.0)


def modes_of_a_block_survive_what_runs_while_it_waits() -> None:
    """The caller waits for a device inside a block, and runs a node of the outer backward: that
    has the modes of its own backward, not the block's.
    """
    packed: list[Any] = []

    class Waits(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            hooks = torch.autograd.graph.saved_tensors_hooks
            with torch.enable_grad(), hooks(lambda t: (packed.append(t), t)[1], lambda t: t):
                (on("sim:0", 1.0) * 2).sum().backward()
                (leaf(torch, 2.0) ** 2).sum()
            return grad

    x = leaf(torch, 1.0)
    outer = x * 5
    outer.register_hook(torch.enable_grad()(lambda grad: (leaf(torch, 2.0) ** 2, None)[1]))
    torch.sim.set(latency=0.002)
    (outer + Waits.apply(x)).sum().backward()
    torch.sim.set(latency=0.0)
    assert len(packed) == 1, packed
    same(x.grad, 6.0)


def a_trace_keeps_its_rules() -> None:
    with record() as recording:
        for _ in range(3):
            mixed()[1].backward()
    violations = check(recording.trace())
    assert violations == [], violations[0]


DETECTORS: list[Callable[[], None]] = [
    gradients_of_several_devices,
    each_device_has_its_thread,
    modes_go_along_and_come_back,
    errors_come_out_of_workers,
    anomalies_are_found_by_workers,
    gradients_fit_on_devices,
    only_what_is_needed_runs,
    the_inner_backward_goes_first,
    modes_of_a_block_survive_what_runs_while_it_waits,
    a_trace_keeps_its_rules,
]


def noticed(name: str) -> str:
    """The first thing that is noticed."""
    if name in THREADS:
        THREADS[name](pytest.MonkeyPatch())
    for detector in DETECTORS:
        try:
            detector()
        except (Exception, pytest.fail.Exception) as error:
            return f"{detector.__name__}: {error!r}"
    return ""


def fork(name: str) -> tuple[int, BinaryIO]:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, f"{noticed(name)} ".encode())
        os._exit(0)
    os.close(write)
    return child, os.fdopen(read, "rb")


def told(child: int, end: BinaryIO, until: float) -> str:
    hangs = not select.select([end], [], [], max(until - time.monotonic(), 0))[0]
    if hangs:
        os.kill(child, signal.SIGKILL)
    with end:
        text = end.read().decode()
    os.waitpid(child, 0)
    return "it hangs" if hangs else text.removesuffix(" ") if text else "it died"


def main(seconds: float, names: list[str]) -> None:
    forks = {name: fork(name) for name in names}
    until = time.monotonic() + seconds
    print(json.dumps({name: told(*each, until) for name, each in forks.items()}))


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2:])
