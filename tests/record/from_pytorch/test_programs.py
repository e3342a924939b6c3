"""What programs do with PyTorch's engine: nested, reentrant, twice, by halves; all as unwatched."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import gradscope
from gradscope.record.from_pytorch.pytorch_engine import PyTorch
from gradscope.record.recording import Options, Recording
from gradscope.scene.readable import shape
from gradscope.trace.schema import (
    NONE,
    GraphTask,
    HookBegin,
    Module,
    Node,
    NodeBegin,
    Saved,
    Span,
    Step,
    Tensor,
)
from gradscope.trace.schema.tables import Order
from gradscope.trace.shortcomings import notes_of
from gradscope.trace.trace import Trace
from gradscope.trace.writer import MemoryWriter
from tests.record.from_pytorch.watching import recorded, watched

pytestmark = pytest.mark.torch


def names(trace: Trace, table: Any, column: str = "name") -> list[str]:
    return list(trace.texts(trace.table(table)[column]))


def ran(trace: Trace) -> list[str]:
    """The names of nodes in the order in which they ran."""
    nodes = trace.table(Node)
    of = dict(zip(nodes["id"].tolist(), trace.texts(nodes["name"]), strict=True))
    return [of[node] for node in trace.table(NodeBegin)["node"].tolist()]


def training(torch: Any) -> list[Any]:
    """Three steps of a small network: losses, gradients, parameters."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = torch.randn(16, 4), torch.randn(16, 1)
    seen = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        seen += [loss.detach(), *(p.grad.clone() for p in model.parameters())]
    return [*seen, *(p.detach().clone() for p in model.parameters())]


def several_roots(torch: Any) -> list[Any]:
    x = torch.ones(3, requires_grad=True)
    torch.autograd.backward([x.exp().sum(), (x * 2).sum()])
    return [x.grad]


def only_inputs(torch: Any) -> list[Any]:
    x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    z = (x.exp() * y.sin()).sum()
    unused = torch.ones(2, requires_grad=True)
    grads = torch.autograd.grad(z, [x, unused], allow_unused=True, retain_graph=True)
    z.backward(inputs=[y])
    return [grads[0], y.grad, x.grad is None, grads[1] is None]


def twice(torch: Any) -> list[Any]:
    x = torch.full((3,), 0.5, requires_grad=True)
    (g,) = torch.autograd.grad(x.exp().sin().sum(), x, create_graph=True)
    g.sum().backward()
    return [g.detach(), x.grad]


def kept(torch: Any) -> list[Any]:
    x = torch.ones(3, requires_grad=True)
    y = x.exp().sum()
    y.backward(retain_graph=True)
    y.backward()
    return [x.grad]


def inside(torch: Any) -> list[Any]:
    """A backward that a hook starts."""
    x = torch.ones(3, requires_grad=True)

    def hook(grad: Any) -> Any:
        with torch.enable_grad():
            (inner,) = torch.autograd.grad((x.sin() * grad.detach()).sum(), x)
        return inner

    y = x.exp()
    y.register_hook(hook)
    y.cos().sum().backward()
    return [x.grad]


def inside_while_others_wait(torch: Any) -> list[Any]:
    """The queue of the backward inside begins with what the one around it has left there."""
    x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)

    def hook(grad: Any) -> None:
        with torch.enable_grad():
            torch.autograd.grad((y.exp() * y).sum(), y)

    z = y.sin()
    w = x.exp()
    w.register_hook(hook)
    (w + z).sum().backward()
    return [x.grad, y.grad]


def checkpointed(torch: Any) -> list[Any]:
    from torch.utils.checkpoint import checkpoint

    x = torch.ones(3, requires_grad=True)
    for reentrant in (True, False):
        checkpoint(lambda t: t.exp().sin(), x, use_reentrant=reentrant).sum().backward()
    return [x.grad]


def custom(torch: Any) -> list[Any]:
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 2 * x * grad

    x = torch.full((3,), 3.0, requires_grad=True)
    Square.apply(x).sum().backward()
    return [x.grad]


def packed(torch: Any) -> list[Any]:
    """Saved tensors packed by hooks; looking at them must not unpack them."""
    unpacked = []
    x = torch.full((3,), 0.5, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: t.clone(), lambda t: (unpacked.append(1), t)[1]
    ):
        y = (x * x).exp().sum()
    before = len(unpacked)
    y.backward()
    return [before, len(unpacked), x.grad]


PROGRAMS: dict[str, tuple[Callable[[Any], list[Any]], int]] = {
    "training": (training, 3), "several roots": (several_roots, 1), "inputs": (only_inputs, 2),
    "twice": (twice, 2), "kept": (kept, 2), "inside": (inside, 2),
    "inside while others wait": (inside_while_others_wait, 2), "checkpoint": (checkpointed, 3),
    "custom": (custom, 1), "packed": (packed, 1),
}  # fmt: skip


@pytest.mark.parametrize("level", ["graph", "engine"])
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_program_does_bit_for_bit_what_it_does_unwatched(name: str, level: str) -> None:
    import torch

    program, backwards = PROGRAMS[name]
    unwatched = program(torch)
    seen, trace = watched(lambda: program(torch), level)

    assert len(seen) == len(unwatched)
    for one, other in zip(seen, unwatched, strict=True):
        assert torch.equal(one, other) if isinstance(other, torch.Tensor) else one == other
    assert len(trace.table(GraphTask)) == backwards


def test_nodes_run_in_the_order_in_which_pytorch_runs_them() -> None:
    """Hooks on nodes, PyTorch's own, say which ran; the trace says the same."""
    import torch

    order: list[str] = []

    def program() -> None:
        x = torch.ones(3, requires_grad=True)
        y = (x.exp() * x.sin() + x.cos()).sum()
        pending, met = [y.grad_fn], set()
        while pending:
            node = pending.pop()
            if node is not None and node not in met:
                met.add(node)
                short = node.name().rpartition("::")[2]
                node.register_prehook(lambda grads, short=short: order.append(short))
                pending += [following for following, _ in node.next_functions]
        y.backward()

    _, trace = watched(program)

    assert ran(trace) == order


def test_modules_steps_and_hooks_of_a_training_are_in_the_trace() -> None:
    import torch

    _, trace = watched(lambda: training(torch))

    assert names(trace, Module, "type") == ["Sequential", "Linear", "Tanh", "Linear"]
    assert names(trace, Span).count("SGD.step") == names(trace, Span).count("SGD.zero_grad") == 3
    assert len(trace.table(Step)) == 4  # the last has only begun
    assert {"self", "mat1", "mat2", "result"} <= set(names(trace, Saved, "slot"))
    _, trace = watched(lambda: inside(torch))
    assert names(trace, HookBegin) == ["inside.<locals>.hook"]


def test_what_a_gradient_scaler_does_is_a_span_whether_it_steps_or_not() -> None:
    import torch

    def program() -> list[Any]:
        w = torch.ones(2, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        for factor in (1.0, float("inf")):
            optimizer.zero_grad()
            scaler.scale((w * factor).sum()).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
        return [w.detach(), torch.tensor(scaler.get_scale())]

    own = torch.amp.GradScaler.step, torch.optim.Optimizer.zero_grad
    unwatched = program()
    seen, trace = watched(program)

    assert all(map(torch.equal, seen, unwatched))
    spans = names(trace, Span)
    assert [spans.count(f"GradScaler.{name}") for name in ("unscale_", "step", "update")] == [2] * 3
    assert spans.count("SGD.step") == 1
    assert own == (torch.amp.GradScaler.step, torch.optim.Optimizer.zero_grad)


def test_both_ways_of_seeing_runs_see_the_same() -> None:
    """Hooks on every node, where the native observer cannot be had."""
    import torch

    from gradscope.watch.in_place.faults import Faults
    from gradscope.watch.observer import Observer
    from gradscope.watch.public.hooked_runs import HookedRunObserver
    from gradscope.watch.python_walk import GraphWalker
    from gradscope.watch.runs import NativeRunObserver

    assert isinstance(NativeRunObserver(Observer())._observer, Observer)
    faults = Faults()
    hooked = HookedRunObserver(faults)
    hooked.start()
    from gradscope.watch.listener import PythonNodeRecord

    numbers = iter(range(1, 100))
    listener: Any = SimpleNamespace(
        new_record=lambda _: PythonNodeRecord(None, next(numbers), 0, 0, 0),
        recording=None,
        arguments=None,
        tensor=id,
    )
    graph = GraphWalker(listener, hooked.attend, saved=False)
    x = torch.ones(3, requires_grad=True)
    y = x.exp().sin().sum()
    graph.walk_from([y])
    native = NativeRunObserver(Observer())
    native.start()
    for runs in (hooked, native):
        runs.begins()
    y.backward()
    one, other = (runs.ends(failed=False).runs() for runs in (hooked, native))
    native.stop()
    hooked.stop()

    assert one is not None
    assert other is not None
    assert one.sequence.tolist() == other.sequence.tolist()
    assert faults.texts == {}


def test_the_order_with_several_roots_is_the_one_foretold_where_hooks_see_runs() -> None:
    import torch

    recording = Recording(MemoryWriter(), Options(native=False), PyTorch())
    with recording:
        several_roots(torch)
    trace = recording.trace()

    assert trace.table(GraphTask)["order"].tolist() == [Order.FORETOLD]
    assert ran(trace)[0] == "GraphRoot"


def test_an_error_says_what_it_says_unwatched_and_warns_of_nothing() -> None:
    import torch

    def program() -> str:
        x = torch.ones(3, requires_grad=True)
        y = x.exp()
        y.add_(1)
        with pytest.raises(RuntimeError) as raised:
            y.sum().backward()
        return str(raised.value)

    seen, trace = watched(program)

    assert seen == program()
    assert "modified by an inplace operation" in trace.texts(trace.table(GraphTask)["error"])[0]


def test_a_backward_of_nothing_is_no_fault_and_leaves_no_row() -> None:
    import torch

    seen, trace = watched(lambda: torch.autograd.backward([], []))

    assert seen is None
    assert (len(trace.table(GraphTask)), trace.meta.get("unseen")) == (0, None)


def test_anomaly_mode_is_the_programs_own() -> None:
    import torch

    def program() -> tuple[Any, ...]:
        before = torch.is_anomaly_enabled()
        with torch.autograd.detect_anomaly():
            inside = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
            x = torch.zeros(1, requires_grad=True)
            y = (x.sqrt() * 0).sum()
            stack = y.grad_fn.metadata["traceback_"]
            with (
                pytest.warns(UserWarning, match="Error detected in SqrtBackward0") as said,
                pytest.raises(RuntimeError, match="returned nan values in its 0th output"),
            ):
                y.backward()
        line = "y = (x.sqrt() * 0).sum()"
        told = line in str(said[0].message) and any(line in each for each in stack)
        return before, inside, told, torch.is_anomaly_enabled()

    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
        unwatched = program()
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
        seen, _ = watched(program)

    assert seen == unwatched == (False, (True, True), True, False)
    assert not torch.is_anomaly_enabled()


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_leaf_whose_sizes_are_no_numbers_is_described_by_those_that_are() -> None:
    """A nested tensor: one of its sizes is a list. Its row could not be written."""
    import torch

    parts = [torch.ones(2, 4), torch.ones(3, 4)]

    def program() -> Any:
        nested = torch.nested.nested_tensor(parts, requires_grad=True, layout=torch.jagged)
        (nested * 2).values().sum().backward()
        strided = torch.nested.nested_tensor(parts, requires_grad=True)
        (strided * 2).to_padded_tensor(0.0).sum().backward()
        return nested.grad.values().sum().item()

    for level in ("graph", "values"):
        result, trace = recorded(program, level)
        assert result == 40
        leaves = [row for row in trace.rows(Tensor) if row.leaf and row.requires_grad]
        assert [row.shape for row in leaves] == [(2, NONE, 4), (NONE, NONE, NONE)]
        assert [shape(row.shape) for row in leaves] == ["[2, ?, 4]", "[?, ?, ?]"]


def test_nothing_is_kept_alive_that_the_program_lets_go() -> None:
    import torch

    def program() -> list[bool]:
        x = torch.ones(3, requires_grad=True)
        y = x.exp()
        value = weakref.ref(y)
        loss = (y * 2).sum()
        loss.backward()
        del y, loss
        gc.collect()
        return [value() is None]

    assert watched(program)[0] == [True]


def test_a_deep_chain_is_left_alone_where_it_would_be_walked_from_python_and_that_is_said() -> None:
    import torch

    def program() -> float:
        x = torch.ones(1, requires_grad=True)
        y = x
        for _ in range(200_000):
            y = y * 1.0
        y.backward()
        return float(x.grad)

    recording = Recording(MemoryWriter(), Options(native=False), PyTorch())
    with recording:
        assert program() == 1.0

    assert (
        "not recorded: a backward, because paths in its graph have more than 10,000 nodes"
        in list(notes_of(recording.trace()))
    )


def test_what_a_pause_leaves_out_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from gradscope.watch.python_walk import GraphWalker

    walked = []
    own = GraphWalker.walk_from
    monkeypatch.setattr(
        GraphWalker, "walk_from", lambda self, ends: (walked.append(1), own(self, ends))[1]
    )
    recording = Recording(MemoryWriter(), Options(steps=(1, 1)), PyTorch())
    with recording:
        training(torch)
    trace = recording.trace()

    assert len(walked) == 1
    assert len(trace.table(GraphTask)) == 1
    assert trace.meta["unwanted"] == {"steps": 2}
    steps = set(trace.table(Node)["step"].tolist())
    assert steps == {1, NONE}  # the last loss, unwatched, kept those of the parameters alive


def test_modules_and_hooks_are_copied_and_pickled_as_ever() -> None:
    import torch

    def program() -> list[bool]:
        model = torch.nn.Linear(2, 2)
        model.weight.register_hook(shrink)
        twin = copy.deepcopy(model)
        again = pickle.loads(pickle.dumps(model))
        return [type(each).__module__ == "torch.nn.modules.linear" for each in (twin, again)]

    seen, _ = watched(program)

    assert seen == [True, True]
    assert torch.nn.Module.__call__.__module__ == "torch.nn.modules.module"
    assert torch.Tensor.register_hook.__module__ == "torch._tensor"


def shrink(grad: Any) -> Any:
    return grad / 2


def test_notes_that_cannot_be_handed_on_are_a_fault_that_is_said_and_the_rest_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The exit code of a traced script was gradscope's then."""
    import torch

    from gradscope.record.from_pytorch import tensors

    def breaks(*_: Any) -> None:
        raise ValueError("on purpose")

    monkeypatch.setattr(tensors.PyTorchTensors, "flush", breaks)
    with gradscope.record(level="engine", on="torch") as recording:
        torch.ones(2, requires_grad=True).exp().sum().backward()
    trace = recording.trace()

    (text,) = trace.meta["unseen"]
    assert text == "a fault of gradscope, when notes were written: ValueError: on purpose"
    assert sorted(row.name for row in trace.rows(Node))[1:] == ["ExpBackward0", "SumBackward0"]


def test_a_fault_of_ours_does_not_reach_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from gradscope.record.from_pytorch import listener

    def breaks(*given: Any) -> None:
        raise ValueError("on purpose")

    monkeypatch.setattr(listener.PyTorchListener, "backward_begins", breaks)
    with gradscope.record(on="torch") as recording:
        seen = training(torch)
    monkeypatch.undo()

    assert all(map(torch.equal, seen, training(torch)))
    fault = "a fault of gradscope, when a backward began: ValueError: on purpose (3 times)"
    assert list(notes_of(recording.trace())) == [f"not recorded: {fault}"]
