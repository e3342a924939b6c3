"""Hooks of the program's on nodes, and callbacks: told in the order in which they are called."""

from __future__ import annotations

import difflib
import pickle
from contextlib import suppress
from copy import deepcopy
from importlib import import_module
from types import FunctionType
from typing import Any

import pytest

from gradscope.trace.schema import (
    Callback,
    Decrement,
    HookBegin,
    HookEnd,
    HookKind,
    Node,
    NodeBegin,
    NodeEnd,
)
from gradscope.trace.trace import Trace
from tests.analysis.likeness.engines import lines, on_gradscope, on_pytorch
from tests.record.from_pytorch.watching import watched

pytestmark = pytest.mark.torch


def hooks(trace: Trace) -> list[tuple[str, str]]:
    """The kind of each hook that was called, and the name of its node."""
    names = {row.id: row.name for row in trace.rows(Node)}
    return [(HookKind(row.hook).name, names.get(row.node, "")) for row in trace.events(HookBegin)]


def test_hooks_on_nodes_are_told_with_their_nodes_where_they_were_called() -> None:
    import torch

    def program() -> list[str]:
        called = []
        x = torch.ones(3, requires_grad=True)
        y = x.exp()
        z = y.sin()
        y.grad_fn.register_prehook(lambda grads: called.append("before exp"))
        y.grad_fn.register_hook(lambda results, grads: called.append("after exp"))
        y.register_hook(lambda grad: called.append("tensor"))
        z.grad_fn.register_hook(lambda results, grads: (results[0] * 2,))
        z.sum().backward()
        return [*called, str(x.grad)]

    unwatched = program()
    seen, trace = watched(program)

    assert seen == unwatched
    assert hooks(trace) == [
        ("POST", "SinBackward0"), ("TENSOR", "ExpBackward0"), ("PRE", "ExpBackward0"),
        ("POST", "ExpBackward0"),
    ]  # fmt: skip
    begins = {row.node: row.seq for row in trace.events(NodeBegin)}
    ends = {row.node: row.seq for row in trace.events(NodeEnd)}
    sent = {row.source: row.seq for row in trace.events(Decrement)}
    for row in trace.events(HookBegin):
        if row.hook == HookKind.POST:
            assert begins[row.node] < row.seq < ends[row.node] < sent[row.node]
        else:
            assert row.seq < begins[row.node]
    replaced = [(HookKind(row.hook).name, row.replaced) for row in trace.events(HookEnd)]
    assert replaced == [("POST", True), ("TENSOR", False), ("PRE", False), ("POST", False)]


def test_hooks_of_modules_are_called_as_often_and_in_the_same_order() -> None:
    import torch

    def program() -> list[Any]:
        called: list[Any] = []
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh())
        for each in model:
            each.register_full_backward_hook(lambda m, grads, given: called.append(type(m)))
            each.register_full_backward_pre_hook(lambda m, grads: called.append(("pre", type(m))))
            each.register_forward_hook(lambda m, args, out: called.append(("forward", type(m))))
        x = torch.ones(1, 2, requires_grad=True)
        model(x).sum().backward()
        return [*called, x.grad.tolist()]

    unwatched = program()
    seen, trace = watched(program)

    assert seen == unwatched
    kinds = [kind for kind, _ in hooks(trace) if kind.startswith("MODULE")]
    assert kinds == [
        "MODULE_FORWARD", "MODULE_FORWARD", "MODULE_BACKWARD_PRE", "MODULE_BACKWARD",
        "MODULE_BACKWARD_PRE", "MODULE_BACKWARD",
    ]  # fmt: skip


def differences(program: Any) -> list[str]:
    """What the two engines say otherwise, but for the names of hooks of each one's own."""
    ours, theirs = on_gradscope(program), on_pytorch(program)
    both = [
        [line for line in lines(one, other) if "hook post index 0" not in line]
        for one, other in ((ours, theirs), (theirs, ours))
    ]
    return [line for line in difflib.ndiff(*both) if line[0] in "+-"]


def around_modules(torch: Any) -> None:
    """Hooks of one module and of all, around their forward and backward."""
    all_modules = import_module(f"{torch.__name__}.nn.modules.module")
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh())
    model[0].register_forward_pre_hook(lambda module, args: None)
    model[0].register_forward_pre_hook(
        lambda module, args, named: (args, named), prepend=True, with_kwargs=True
    )
    model[1].register_forward_hook(lambda module, args, made: made * 2)
    model[1].register_full_backward_pre_hook(lambda module, grads: (grads[0] * 3,))
    model[0].register_full_backward_hook(lambda module, given, grads: (given[0] * 2,))
    handles = [
        all_modules.register_module_forward_pre_hook(lambda module, args: None),
        all_modules.register_module_forward_hook(lambda module, args, made: None),
        all_modules.register_module_full_backward_pre_hook(lambda module, grads: None),
        all_modules.register_module_full_backward_hook(lambda module, given, grads: None),
    ]
    try:
        model(torch.ones(1, 2, requires_grad=True)).sum().backward()
    finally:
        for handle in handles:
            handle.remove()


def around_a_step(torch: Any) -> None:
    """Hooks of one optimizer and of all."""
    all_optimizers = import_module(f"{torch.__name__}.optim.optimizer")
    w = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)
    optimizer.register_step_pre_hook(lambda optimizer, args, named: None)
    optimizer.register_step_post_hook(lambda optimizer, args, named: None)
    handles = [
        all_optimizers.register_optimizer_step_pre_hook(lambda *given: given[1:]),
        all_optimizers.register_optimizer_step_post_hook(lambda *given: None),
    ]
    (w * w).sum().backward()
    optimizer.step()
    for handle in handles:
        handle.remove()


def packing(torch: Any) -> None:
    """Hooks of what nodes save, one of which raises."""
    w = torch.ones(3, requires_grad=True)

    def lost(packed: Any) -> Any:
        raise KeyError

    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach() * 1, lambda t: t):
        y = (w * w).exp()
        z = y.sin().sum()
    z.backward()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach(), lost):
        y = w.exp()
    with suppress(KeyError):
        y.sum().backward()


def test_hooks_of_every_kind_are_told_as_on_gradscopes_engine() -> None:
    for program in (around_modules, around_a_step, packing):
        assert differences(program) == []
        assert len(list(on_pytorch(program).events(HookBegin))) >= 4


def test_hooks_are_found_in_their_modules_as_the_program_registered_them() -> None:
    import torch
    from torch.nn.utils import remove_spectral_norm, spectral_norm

    def program() -> list[Any]:
        model = spectral_norm(torch.nn.Linear(2, 2))
        model.register_forward_hook(doubled)
        others = deepcopy(model), pickle.loads(pickle.dumps(model))
        (found,) = model._forward_hooks.values()
        said = [found == doubled, isinstance(found, FunctionType), found.__name__, repr(found)]
        said += [[*other._forward_hooks.values()] == [doubled] for other in others]
        remove_spectral_norm(model)
        return [*said, len(model._forward_pre_hooks)]

    unwatched = program()
    seen, _ = watched(program)

    assert seen == unwatched
    assert unwatched[-1] == 0


def doubled(module: Any, args: Any, made: Any) -> Any:
    return made * 2


def test_a_compiler_sees_the_hooks_of_modules_as_they_are() -> None:
    import torch
    from torch._dynamo.utils import counters

    def program() -> list[Any]:
        torch._dynamo.reset()
        counters.clear()
        torch.manual_seed(0)
        model = torch.nn.Linear(2, 2)
        model.register_forward_hook(doubled)
        compiled = torch.compile(model, backend="eager", fullgraph=True)
        return [compiled(torch.ones(1, 2)).tolist(), dict(counters["stats"])]

    unwatched = program()
    seen, _ = watched(program)

    assert seen == unwatched


def test_a_hook_before_a_node_that_raises_is_where_the_error_is() -> None:
    import torch

    def program() -> str:
        x = torch.ones(3, requires_grad=True)
        y = x.exp()
        y.grad_fn.register_prehook(lambda grads: grads[1])
        with pytest.raises(IndexError) as raised:
            y.sum().backward()
        return str(raised.value)

    seen, trace = watched(program)

    assert seen == program()
    assert hooks(trace) == [("PRE", "ExpBackward0")]
    assert len(list(trace.events(HookEnd))) == 0


def test_callbacks_at_the_end_of_a_backward_are_told() -> None:
    import torch
    from torch.autograd import Variable

    def program() -> list[str]:
        called: list[str] = []

        def done() -> None:
            called.append("done")

        def hook(grad: Any) -> None:
            Variable._execution_engine.queue_callback(done)

        x = torch.ones(3, requires_grad=True)
        y = x.exp()
        y.register_hook(hook)
        y.sum().backward()
        return called

    seen, trace = watched(program)

    assert seen == ["done"]
    assert [row.name.rpartition(".")[2] for row in trace.events(Callback)] == ["done"]


def test_hooks_are_registered_as_ever_afterwards() -> None:
    import torch

    own = torch.autograd.Function._register_hook
    of_modules = torch.nn.Module.register_forward_hook
    of_optimizers = torch.optim.Optimizer.register_step_pre_hook
    pushing = torch._C._autograd._push_saved_tensors_default_hooks
    watched(lambda: torch.ones(1, requires_grad=True).exp().backward())

    assert torch.autograd.Function._register_hook is own
    assert torch.nn.Module.register_forward_hook is of_modules
    assert torch.optim.Optimizer.register_step_pre_hook is of_optimizers
    assert torch._C._autograd._push_saved_tensors_default_hooks is pushing
    assert "_register_hook" not in torch.autograd.Function.__dict__


def test_hooks_that_were_there_before_are_said_to_be_unseen() -> None:
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.ones(2, 3, requires_grad=True) * 2
    x.register_hook(lambda grad: grad)
    model[0].weight.register_hook(lambda grad: None)
    model[0].bias.register_post_accumulate_grad_hook(lambda leaf: None)
    model.register_forward_hook(lambda *_: None)
    optimizer.register_step_post_hook(lambda *_: None)

    def program() -> None:
        model[1].register_forward_hook(lambda *_: None)
        for _ in range(2):
            model(x).sum().backward(retain_graph=True)
            optimizer.step()

    for again in (0, 1):  # one that was seen in a recording is not, in the next one
        _, trace = watched(program)
        assert trace.meta["unseen"] == {
            "hooks that were registered before the recording began, or copied": 4 + again,
            "hooks of nodes that were created before the recording began": 1,
        }
    assert (
        "unseen" not in watched(lambda: torch.ones(1, requires_grad=True).exp().backward())[1].meta
    )
