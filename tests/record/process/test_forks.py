"""A process may fork in the middle of anything: the child has an engine, the parent its trace."""

from __future__ import annotations

import os
import re
import threading
import time
from pathlib import Path

import pytest

from gradscope.record.process.periodic_flush import wait_until_gone
from gradscope.trace.schema import GraphTask
from tests.record.running import House, Ran

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

AMONG_THREADS = """
import os, sys, threading, time, torch
device = sys.argv[1]
shared = torch.ones(3, requires_grad=True)
go = True
def work():
    while go:
        y = (shared.to(device) * 2).tanh()
        y.register_hook(lambda grad: grad * 1.0)
        (y * 1.1 * 1.1).sum().backward()
        torch.rand(2)
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
codes = []
for _ in range(20):
    child = os.fork()
    if child == 0:
        x = torch.ones(2, requires_grad=True, device=device)
        (x.view(2) * 3).sum().backward()
        shared.grad = None
        (shared * 2).sum().backward()
        torch.rand(2)
        good = x.grad.tolist() == [3.0, 3.0] and shared.grad.tolist() == [2.0] * 3
        os._exit(0 if good else 1)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    time.sleep(0.002)
go = False
for thread in threads: thread.join()
print(set(codes))
"""

IN_A_POOL = """
import multiprocessing, sys, torch
device = sys.argv[1]
def gradient(times):
    x = torch.ones(3, requires_grad=True, device=device)
    for _ in range(times):
        (x * times).sum().backward()
    return x.grad.tolist()
print(gradient(2))
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(gradient, range(1, 6)))
print(gradient(3))
"""

IN_CALLBACKS = """
import os, torch
def forked(name):
    global child
    if name == where and child is None:
        child = os.fork()
def passes(name):
    return lambda tensor: (forked(name), tensor)[1]
class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        forked("forward")
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, grad):
        forked("backward")
        return grad * 2 * ctx.saved_tensors[0]
queue = torch.autograd.Variable._execution_engine.queue_callback
for where in "forward backward tensor pre post after pack unpack callback".split():
    child = None
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(passes("pack"), passes("unpack")):
        y = Squared.apply(x * 3)
    y.register_hook(lambda grad: forked("tensor"))
    y.register_hook(lambda grad: queue(lambda: forked("callback")))
    y.grad_fn.register_prehook(lambda grads: forked("pre"))
    y.grad_fn.register_hook(lambda made, taken: forked("post"))
    x.register_post_accumulate_grad_hook(lambda leaf: forked("after"))
    y.sum().backward()
    (x * 2).sum().backward()
    if child == 0:
        os._exit(0 if x.grad.tolist() == [20.0, 38.0] else 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(where, x.grad.tolist(), code, flush=True)
"""


def both_ways(house: House, script: str, *arguments: str) -> tuple[Ran, Ran]:
    """The script by itself, and recorded; the trace keeps its rules."""
    house.write(script)
    house.write(re.sub(r"\btorch\n", "gradscope.runtime as torch\n", script, count=1), "plain.py")
    quiet = {"PYTHONWARNINGS": "ignore::DeprecationWarning"}  # newer Pythons warn of forks
    plain = house.python("plain.py", *arguments, env=quiet)
    traced = house.trace("script.py", *arguments, env=quiet)
    assert house.violations() == []
    return plain, traced


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_a_child_forked_while_other_threads_are_at_work(house: House, device: str) -> None:
    assert both_ways(house, AMONG_THREADS, device) == (Ran(0, "{0}\n", ""), Ran(0, "{0}\n", ""))


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_children_of_a_pool_whose_parent_has_used_the_engine(house: House, device: str) -> None:
    squares = [[float(k * k)] * 3 for k in range(1, 6)]
    lines = f"{[4.0] * 3}\n{squares}\n{[9.0] * 3}\n"

    assert both_ways(house, IN_A_POOL, device) == (Ran(0, lines, ""), Ran(0, lines, ""))
    assert len(house.recorded().table(GraphTask)) == 5


def test_a_fork_in_any_callback_leaves_two_processes_that_go_on(house: House) -> None:
    plain, traced = both_ways(house, IN_CALLBACKS)

    places = ["forward", "backward", "tensor", "pre", "post", "after", "pack", "unpack", "callback"]
    assert plain.out.splitlines() == [f"{place} [20.0, 38.0] 0" for place in places]
    assert traced == plain
    assert len(house.recorded().table(GraphTask)) == 18


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux")
def test_a_fork_can_wait_until_the_system_has_ended_a_thread() -> None:
    numbers: list[int] = []

    def work() -> None:
        numbers.append(threading.get_native_id())
        time.sleep(0.05)

    thread = threading.Thread(target=work)
    thread.start()
    while not numbers:
        time.sleep(0.001)
    wait_until_gone(numbers[0])

    assert not Path(f"/proc/self/task/{numbers[0]}").exists()
    thread.join()
    wait_until_gone(numbers[0])
