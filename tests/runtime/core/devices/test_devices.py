"""Simulated devices: where tensors are, and an engine with a thread for each."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest

import gradscope.runtime as torch
from gradscope.record.recorder import record
from gradscope.runtime.core import probe
from gradscope.runtime.core.autograd.engine import workers
from gradscope.runtime.core.devices.streams import Settings
from gradscope.trace import schema
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace
from tests.shared.searching import TIMES

TWO = "Expected all tensors to be on the same device, but found at least two devices, {} and {}!"


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    before = Settings.devices, Settings.latency, Settings.ahead
    yield
    Settings.devices, Settings.latency, Settings.ahead = before


def leaf(device: str, *values: float) -> Any:
    made = torch.tensor(list(values), dtype=torch.float64, device=device)
    return made.requires_grad_(True)


def mixed(scale: float = 1.0) -> tuple[list[Any], Any]:
    """Leaves on three devices, and a number that all of them went into."""
    a, b, c = leaf("sim:0", 1, 2, 3), leaf("sim:1", 4, 5, 6), leaf("cpu", 0.5, 0.25, 2)
    left = (a * a * scale).tanh().to("cpu") * c
    right = (b.exp() / 100).to("cpu") + (b * a.to("sim:1")).to("cpu")
    return [a, b, c], (left + right).sum()


def gradients() -> list[list[float]]:
    leaves, root = mixed()
    root.backward()
    return [x.grad.tolist() for x in leaves]


# -- tensors ------------------------------------------------------------------------------------


def test_results_are_where_their_inputs_are() -> None:
    x = leaf("sim:1", 1, 2)

    for made in (x, x * 2, x[:1], x.sum(), x.detach(), x.data, x.clone(), torch.zeros_like(x)):
        assert str(made.device) == "sim:1"
    assert repr(x) == "tensor([1., 2.], device='sim:1', dtype=torch.float64, requires_grad=True)"
    assert (x.get_device(), x.cpu().get_device()) == (1, -1)
    assert str(torch.ones(2, device="sim").device) == "sim:0"


def test_tensors_of_two_devices_do_not_mix() -> None:
    x, y, z = leaf("sim:0", 1), leaf("sim:1", 1), leaf("cpu", 1)

    for other, names in ((y, ("sim:0", "sim:1")), (z, ("sim:0", "cpu"))):
        with pytest.raises(RuntimeError) as caught:
            x + other
        assert str(caught.value) == TWO.format(*names)


def test_a_copy_into_a_tensor_goes_across_devices_and_its_gradient_back() -> None:
    for here, there in (("cpu", "sim:0"), ("sim:0", "cpu"), ("sim:1", "sim:0")):
        x = torch.ones(2, device=here, requires_grad=True)
        y = torch.zeros(2, device=there)

        y.copy_(x)
        (y * 3).sum().backward()

        assert x.grad is not None
        assert (str(y.device), y.tolist()) == (there, [1.0, 1.0])
        assert (str(x.grad.device), x.grad.tolist()) == (here, [3.0, 3.0])


def test_numbers_go_everywhere() -> None:
    x = leaf("sim:0", 1, 2)

    assert str((x * torch.tensor(3.0) + 1).device) == "sim:0"


def test_values_leave_a_device_by_name_only() -> None:
    x = leaf("sim:0", 1, 2).detach()

    assert x.tolist() == [1, 2]
    with pytest.raises(TypeError, match=r"can't convert sim:0 device type tensor to numpy\."):
        x.numpy()
    assert x.cpu().numpy().tolist() == [1, 2]


def test_a_device_that_is_not_there() -> None:
    torch.sim.set(devices=2)

    with pytest.raises(RuntimeError, match="invalid device ordinal: sim:2\nThere are 2 simulated"):
        torch.zeros(1, device="sim:2")


def test_a_default_device() -> None:
    with torch.device("sim:1"):
        assert str(torch.ones(1).device) == "sim:1"
        assert str(torch.ones(1, device="cpu").device) == "cpu"
    assert str(torch.ones(1).device) == "cpu"


def test_copies_stay_on_their_device() -> None:
    x = leaf("sim:1", 1, 2)

    for made in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert (str(made.device), made.tolist()) == ("sim:1", [1, 2])


def test_a_module_moves() -> None:
    layer = torch.nn.Linear(2, 2).to("sim:0")
    layer(torch.ones(1, 2, device="sim:0")).sum().backward()

    assert {str(p.grad.device) for p in layer.parameters()} == {"sim:0"}


def test_a_gradient_must_be_where_its_tensor_is() -> None:
    x = leaf("sim:0", 1.0)

    with pytest.raises(RuntimeError, match="assign a gradient with device type 'cpu' to a tensor"):
        x.grad = torch.ones(1, dtype=torch.float64)


# -- the engine ---------------------------------------------------------------------------------


def test_gradients_are_those_of_one_device() -> None:
    a, b, c = (leaf("cpu", *v) for v in ((1, 2, 3), (4, 5, 6), (0.5, 0.25, 2)))
    ((a * a).tanh() * c + b.exp() / 100 + b * a).sum().backward()

    for found, wanted in zip(gradients(), (a, b, c), strict=True):
        assert found == pytest.approx(wanted.grad.tolist(), rel=1e-12)


def test_each_device_has_a_thread_that_runs_its_nodes() -> None:
    names: dict[str, str] = {}
    leaves, root = mixed()
    for x in leaves:
        x.register_hook(lambda g: names.update({str(g.device): threading.current_thread().name}))
    root.backward()

    assert names == {
        "sim:0": "sim:0",
        "sim:1": "sim:1",
        "cpu": threading.current_thread().name,
    }


def test_without_multithreading_the_caller_runs_everything() -> None:
    names: set[str] = set()
    leaves, root = mixed()
    for x in leaves:
        x.register_hook(lambda g: names.add(threading.current_thread().name))
    with torch.autograd.set_multithreading_enabled(False):
        root.backward()

    assert names == {threading.current_thread().name}


def exact() -> list[list[float]]:
    """Gradients that are whole numbers: in whatever order they are summed, the sum is the same."""
    a, b, c = leaf("sim:0", 1, 2, 3), leaf("sim:1", 4, 5, 6), leaf("cpu", 7, 8, 9)
    far = a.to("sim:1")
    left = (a * a * 2).cpu() * c + (b * far).cpu() * c
    right = (far * far * b).to("sim:2") - (b * b).to("sim:2") + a.to("sim:2") * 3
    (left.sum() + (right * right).sum().cpu()).backward()
    return [x.grad.tolist() for x in (a, b, c)]


@pytest.mark.search
def test_random_latencies_change_no_gradient() -> None:
    wanted = exact()
    random = Random(0)
    torch.sim.set(latency=lambda number: random.choice((0, 0, 1e-6, 5e-5, 2e-4)))

    for run in range(300 * TIMES):
        assert exact() == wanted, run


def test_a_gradient_of_a_gradient_across_devices() -> None:
    x = leaf("sim:0", 0.5, 2)
    y = ((x * x * x).to("cpu") * 2).to("sim:1").sum()
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)

    assert (str(first.device), first.tolist()) == ("sim:0", [1.5, 24])
    assert (str(second.device), second.tolist()) == ("sim:0", [6, 24])


def test_modes_and_hooks_go_along_to_the_workers() -> None:
    seen: list[Any] = []

    def look(grad: Any) -> None:
        seen.append((torch.is_grad_enabled(), torch.is_anomaly_enabled()))
        y = leaf("sim:0", 3.0)
        (y * y).sum()  # saves y: the caller's hooks pack it

    x = leaf("sim:0", 1, 2)
    y = (x * 2).sum()
    x.register_hook(look)
    packed: list[Any] = []

    def pack(tensor: Any) -> Any:
        packed.append((threading.current_thread().name, str(tensor.device)))
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t)
    with hooks, torch.autograd.set_detect_anomaly(True):
        y.backward(create_graph=True)

    assert seen == [(True, True)]
    assert packed[-1] == ("sim:0", "sim:0")


def test_an_error_in_a_worker_reaches_the_caller_and_leaves_the_engine_usable() -> None:
    class Wrong(Exception):
        pass

    def fail(grad: Any) -> None:
        raise Wrong("on purpose")

    leaves, root = mixed()
    leaves[0].register_hook(fail)
    with pytest.raises(Wrong, match="on purpose") as caught:
        root.backward()

    assert "fail" in [entry.name for entry in caught.traceback]
    assert exact() == exact()


def test_a_custom_function_must_return_gradients_where_its_inputs_are() -> None:
    class Lost(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            assert str(grad.device) == "sim:0"
            return grad.cpu()

    with pytest.raises(RuntimeError) as caught:
        Lost.apply(leaf("sim:0", 1, 2)).sum().backward()

    assert str(caught.value) == (
        "Function LostBackward returned an invalid gradient at index 0 - "
        "expected device sim:0 but got cpu"
    )


def test_a_backward_inside_a_node_of_a_device_runs_on_its_thread() -> None:
    threads: list[str] = []

    def inside(grad: Any) -> None:
        with torch.enable_grad():
            y, z = leaf("sim:0", 2.0), leaf("cpu", 5.0)
            root = (y.cpu() * z).sum()
        for x in (y, z):
            x.register_hook(lambda g: threads.append(threading.current_thread().name))
        root.backward()
        assert (y.grad.tolist(), z.grad.tolist()) == ([5], [2])

    x = leaf("sim:0", 1.0)
    x.register_hook(inside)
    (x * 2).sum().backward()

    assert sorted(threads) == ["sim:0"] * 2


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_many_threads_lose_no_gradient_on_shared_leaves(device: str) -> None:
    leaves = [leaf("sim:0", 1, 2), leaf("sim:1", 3), leaf("cpu", 4)]
    threads, times = 6, 30

    def work() -> None:
        for _ in range(times):
            sum((x * 2).sum().to(device) for x in leaves).backward()

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()

    for x in leaves:
        assert x.grad.tolist() == [2.0 * threads * times] * len(x)


def test_two_devices_work_at_the_same_time() -> None:
    torch.sim.set(latency=0.02)
    a, b = leaf("sim:0", 1.0), leaf("sim:1", 1.0)
    x, y = a, b
    for _ in range(4):
        x, y = x * 2, y * 2
    root = x.cpu().sum() + y.cpu().sum()
    with record() as recording:
        root.backward()
    trace = recording.trace()
    names = {row.id: row.name for row in trace.rows(schema.Thread)}
    spans: dict[str, list[int]] = {}
    for event in trace.events(schema.NodeBegin, schema.NodeEnd):
        spans.setdefault(names[event.thread], []).append(event.t)

    first, second = spans["sim:0"], spans["sim:1"]
    assert max(min(first), min(second)) < min(max(first), max(second))
    assert check(trace) == []


def test_a_launch_waits_no_longer_than_it_must() -> None:
    torch.sim.set(latency=0.01, ahead=100)
    begin = time.perf_counter()
    x = leaf("sim:2", 1.0).detach()
    for _ in range(20):
        x = x + 1
    launched = time.perf_counter() - begin
    assert x.item() == 21
    done = time.perf_counter() - begin

    assert done >= 0.2 > launched


# -- what is seen -------------------------------------------------------------------------------


def seen() -> Trace:
    with record() as recording:
        gradients()
    return recording.trace()


def test_a_trace_shows_who_ran_what_and_who_waited_for_whom() -> None:
    torch.sim.set(latency=0.002)
    trace = seen()
    threads = {row.id: row.name for row in trace.rows(schema.Thread)}
    devices = {row.id: row.name for row in trace.rows(schema.Device)}
    tensors = {row.id: row for row in trace.rows(schema.Tensor)}
    nodes = {row.id: row for row in trace.rows(schema.Node)}

    assert check(trace) == []
    assert set(devices.values()) == {"cpu", "sim:0", "sim:1"}
    for event in trace.events(schema.NodeBegin):
        taken = nodes[event.node].inputs
        place = devices[tensors[taken[0]].device]
        runner = threads[event.thread]
        assert (place if place != "cpu" else "MainThread") in runner
    waits, wakes = ([e.thread for e in trace.events(kind)] for kind in (schema.Wait, schema.Wake))
    (owner,) = {task.thread for task in trace.rows(schema.GraphTask)}
    assert owner in waits
    assert owner in wakes
    empty = [e for e in trace.events(schema.Push) if e.node == schema.NONE]
    assert [(e.queue, threads[e.thread] != threads[owner]) for e in empty] == [(owner, True)]


TOLD = (
    "queued",
    "unqueued",
    "waits",
    "wakes",
    "handed_on",
    "placed",
    "popped",
    "node_begins",
    "node_ends",
)


@pytest.mark.parametrize("kind", TOLD)
@pytest.mark.parametrize("nth", [1, 2, 5])
def test_a_watcher_that_fails_costs_one_backward_and_no_thread(kind: str, nth: int) -> None:
    class Failed(BaseException):
        pass

    torch.sim.set(latency=0.0005)
    with record() as recording:
        watcher, told = probe.here, 0
        before = getattr(watcher, kind)

        def failing(*given: Any, **named: Any) -> Any:
            nonlocal told
            told += 1
            if told == nth:
                raise Failed(kind)
            return before(*given, **named)

        setattr(watcher, kind, failing)
        with suppress(Failed):
            exact()
        delattr(watcher, kind)
        with suppress(Failed):  # told while no backward ran, it is raised in the next
            exact()
        again = exact()

    assert again == exact()
    assert isinstance(recording.trace(), Trace)
    assert recording.trace().rows(schema.GraphTask)


INTERRUPTED = """
import os, signal, threading
import gradscope.runtime as torch
from gradscope.record.recorder import record
from gradscope.trace.spec import check

torch.sim.set(latency=0.05)

def program():
    a = torch.ones(2, device="sim:0", requires_grad=True)
    y = a
    for _ in range(6):
        y = y * 2
    return a, y.cpu().sum()

a, root = program()
with record() as recording:
    threading.Timer(0.12, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        root.backward()
    except KeyboardInterrupt:
        print("interrupted")
    torch.sim.set(latency=0.001)
    for _ in range(3):
        a, root = program()
        root.backward()
        print(a.grad.tolist())
print(check(recording.trace()))
"""


def test_who_waits_for_a_device_may_be_interrupted() -> None:
    assert run(INTERRUPTED) == (0, "interrupted\n" + "[64.0, 64.0]\n" * 3 + "[]\n", "")


def test_a_recording_that_begins_in_a_worker() -> None:
    recordings: list[Any] = []

    def begin(grad: Any) -> None:
        recordings.append(record())
        recordings[0].start()

    leaves, root = mixed()
    leaves[0].register_hook(begin)
    root.backward()
    gradients()
    recordings[0].stop()

    assert check(recordings[0].trace()) == []


# -- processes ----------------------------------------------------------------------------------

ENDS = """
import gradscope.runtime as torch
torch.sim.set(latency=0.001)
x = torch.ones(3, device="sim:0", requires_grad=True)
(x * 2).sum().backward()
print(x.grad.tolist())
"""

FORKS = """
import os, sys
import gradscope.runtime as torch

def program(device="sim:0"):
    x = torch.ones(2, device=device, requires_grad=True)
    y = (x * 3).cpu().sum()
    return x, y

x, y = program(); y.backward()
children = []

def fork(grad):
    child = os.fork()
    if child:
        children.append(child)
        return
    fresh, root = program()  # the child has workers of its own
    root.backward()
    assert fresh.grad.tolist() == [3.0, 3.0]

x, y = program()
if sys.argv[1] == "owner":
    y.grad_fn.register_prehook(lambda grads: fork(grads[0]))
else:
    x.register_hook(fork)
try:
    y.backward()
    said = "done"
except RuntimeError as error:
    said = str(error).splitlines()[0]
if children:
    _, status = os.waitpid(children[0], 0)
    print("parent", said, x.grad.tolist(), status)
else:
    print("child", said)
sys.stdout.flush()
"""


def run(*arguments: str) -> tuple[int, str, str]:
    command = [sys.executable, "-c", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stdout, done.stderr


def test_a_process_with_workers_ends() -> None:
    assert run(ENDS) == (0, "[2.0, 2.0, 2.0]\n", "")


def test_a_fork_in_the_middle_of_a_backward_gives_an_error_or_an_engine() -> None:
    code, out, err = run(FORKS, "owner")

    assert (code, err) == (0, "")
    assert sorted(out.splitlines()) == [
        f"child {workers.FORKED.splitlines()[0]}",
        "parent done [3.0, 3.0] 0",
    ]


def test_a_fork_on_a_workers_thread_ends_with_that_thread() -> None:
    code, out, err = run(FORKS, "worker")

    assert (code, err, out) == (0, "", "parent done [3.0, 3.0] 0\n")


def test_idle_threads_of_the_pool_are_used_again() -> None:
    def nested(depth: int) -> Any:
        x = leaf("cpu", 1.0)
        if depth:
            x.register_hook(lambda grad: nested(depth - 1))
        with torch.enable_grad():
            (x * 2).sum().backward()

    nested(200)
    idle = len(workers.pool._idle)
    nested(200)

    assert 0 < len(workers.pool._idle) == idle
