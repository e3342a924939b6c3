"""Dispatch modes see each operation that runs, below autograd, in backward too."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from typing import Any

import pytest

from gradscope.trace import schema
from gradscope.trace.trace import Trace
from tests.runtime.rules.conftest import Seen, engine, recording, seen, torch

__all__ = ["engine", "recording", "seen", "torch"]

PATCHED = {"aten.detach.default"}
"""What PyTorch shows besides: it detaches a result before it is saved."""


@pytest.fixture
def modes(torch: Any) -> Any:
    return importlib.import_module(f"{torch.__name__}.utils._python_dispatch")


def logging(modes: Any) -> Any:
    class Log(modes.TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.calls: list[Any] = []

        @property
        def names(self) -> list[str]:
            return [name for name, _, _ in self.calls if name not in PATCHED]

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            kwargs = kwargs or {}
            result = func(*args, **kwargs)
            self.calls.append((str(func), args, kwargs))
            return result

    return Log()


def square(torch: Any) -> Any:
    return torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)


SEEN: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "a product": (lambda t, x: x * x, ["mul.Tensor"]),
    "a number": (lambda t, x: x * 2, ["mul.Tensor"]),
    "a number first": (lambda t, x: 1 - x, ["rsub.Scalar"]),
    "an option": (lambda t, x: t.add(x, x, alpha=2), ["add.Tensor"]),
    "a power": (lambda t, x: x**2, ["pow.Tensor_Scalar"]),
    "one input": (lambda t, x: x.exp(), ["exp.default"]),
    "a sum": (lambda t, x: (x.sum(), x.sum(0)), ["sum.default", "sum.dim_IntList"]),
    "a comparison": (lambda t, x: (x > 1, x > x.t()), ["gt.Scalar", "t.default", "gt.Tensor"]),
    "a composite": (lambda t, x: t.nn.functional.linear(x, x), ["t.default", "mm.default"]),
    "a composite with a bias": (
        lambda t, x: t.nn.functional.linear(x, x, x[0]),
        ["select.int", "t.default", "addmm.default"],
    ),
    "a loss": (lambda t, x: t.nn.functional.mse_loss(x, x), ["mse_loss.default"]),
    "views": (
        lambda t, x: (x.view(4), x.t(), x.transpose(0, 1), x[0].expand(2, 2)),
        ["view.default", "t.default", "transpose.int", "select.int", "expand.default"],
    ),
    "several results": (lambda t, x: (x.max(0), x.split(1)), ["max.dim", "split.Tensor"]),
    "several inputs": (lambda t, x: t.cat([x, x]), ["cat.default"]),
    "a write": (lambda t, x: x.clone().add_(1).zero_(), ["clone.default", "add_.Tensor",
                                                         "zero_.default"]),
    "a condition": (lambda t, x: t.where(x > 1, x, x), ["gt.Scalar", "where.self"]),
    "a conversion": (lambda t, x: x.to(t.float64), ["_to_copy.default"]),
    "factories": (
        lambda t, x: (t.zeros(2), t.ones_like(x), t.tensor([1.0])),
        ["zeros.default", "ones_like.default", "lift_fresh.default"],
    ),
    "a number out": (lambda t, x: x.sum().item(), ["sum.default", "_local_scalar_dense.default"]),
    "no operation": (lambda t, x: (x.shape, x.requires_grad, x.contiguous()), []),
}  # fmt: skip


@pytest.mark.parametrize("what", SEEN)
def test_a_mode_sees_the_operations_that_run(torch: Any, modes: Any, what: str) -> None:
    act, names = SEEN[what]
    x, log = square(torch), logging(modes)
    with log:
        act(torch, x)
    assert log.names == [f"aten.{name}" for name in names]


def test_arguments_are_those_of_the_schema(torch: Any, modes: Any) -> None:
    x, log = square(torch), logging(modes)
    with log:
        torch.add(x, 3, alpha=2)
        x.sum(1, keepdim=True)
        x.to(torch.float64)
        torch.zeros(2, 3)
    given = {name: (args, kwargs) for name, args, kwargs in log.calls}
    args, kwargs = given["aten.add.Tensor"]
    assert (args[0] is x, args[1:], kwargs) == (True, (3,), {"alpha": 2})
    assert given["aten.sum.dim_IntList"][0][1:] == ([1], True)
    assert given["aten._to_copy.default"][1]["dtype"] is torch.float64
    assert given["aten.zeros.default"][0] == ([2, 3],)


BACKWARDS: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "a product": (lambda t, x: (x * x.detach()).sum(), ["expand.default", "mul.Tensor"]),
    "a mean": (
        lambda t, x: (x.exp() * x).mean(),
        ["expand.default", "div.Scalar", *["mul.Tensor"] * 3, "add.Tensor"],
    ),
    "a layer": (
        lambda t, x: t.nn.functional.linear(x, x.detach()).relu().sum(),
        ["expand.default", "threshold_backward.default", "t.default", "mm.default"],
    ),
    "a view": (
        lambda t, x: (x + x[0]).sum(),
        ["expand.default", "sum.dim_IntList", "view.default", "select_backward.default",
         "add.Tensor"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BACKWARDS)
def test_a_mode_sees_what_a_backward_computes(torch: Any, modes: Any, what: str) -> None:
    act, names = BACKWARDS[what]
    x, log = square(torch), logging(modes)
    y = act(torch, x)
    act(torch, x).backward()
    expected, x.grad = x.grad, None
    with log:
        y.backward()
    assert log.names == ["aten.ones_like.default", *[f"aten.{name}" for name in names]]
    assert x.grad.tolist() == expected.tolist()
    assert not x.grad.requires_grad
    with log:
        (act(torch, x) * 1).backward()
    assert log.names[-1] == "aten.add_.Tensor"  # into .grad, in place


def test_a_graph_is_made_around_a_mode_and_not_inside(torch: Any, modes: Any, seen: Seen) -> None:
    inside: list[Any] = []

    class Looking(modes.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            result = func(*args, **(kwargs or {}))
            inside.append((torch.is_grad_enabled(), result.requires_grad, (result * 2).grad_fn))
            return result

    x = square(torch)
    with Looking():
        y = x * x
    assert inside == [(True, False, None)]
    assert type(y.grad_fn).__name__ == "MulBackward0"
    y.sum().backward()
    assert x.grad.tolist() == [[2.0, 4.0], [6.0, 8.0]]

    def shows(trace: Trace) -> bool:  # the call once; what the mode computes beside, too
        ops = [row.name for row in trace.rows(schema.Op)]
        return ops.count("mul") == 2 and "sum" in "".join(ops)

    seen(shows)


def test_create_graph_goes_through_a_mode(torch: Any, modes: Any) -> None:
    x, log = square(torch), logging(modes)
    with log:
        (first,) = torch.autograd.grad((x * x * x).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
    assert second.tolist() == [[6.0, 12.0], [18.0, 24.0]]
    assert first.requires_grad
    assert log.names.count("aten.mul.Tensor") > 6


def test_a_mode_replaces_what_an_operation_returns(torch: Any, modes: Any) -> None:
    class Adding(modes.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            return func(*args, **(kwargs or {})) + 1

    x = square(torch)
    with Adding():
        y = x * 2
    assert y.tolist() == [[3.0, 5.0], [7.0, 9.0]]
    y.sum().backward()
    assert x.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_modes_nest_the_innermost_first(torch: Any, modes: Any) -> None:
    order: list[str] = []

    class Named(modes.TorchDispatchMode):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            current = modes._get_current_dispatch_mode()
            order.append(f"{self.name} {func} in {current and current.name}")
            if self.name == "inner":
                return torch.add(*args)
            return func(*args, **(kwargs or {}))

    x = square(torch)
    with Named("outer"), Named("inner"):
        names = [mode.name for mode in modes._get_current_dispatch_mode_stack()]
        x * 2
    assert names == ["outer", "inner"]
    assert order == ["inner aten.mul.Tensor in outer", "outer aten.add.Tensor in None"]
    assert modes._get_current_dispatch_mode() is None


def test_writes_and_views_stay_what_they_are(torch: Any, modes: Any) -> None:
    x = torch.zeros(2, 2)
    with logging(modes):
        x.add_(1)
        x[0].mul_(5)
        view = x.t()
    assert (x._version, view._base is x, view._is_view()) == (2, True, True)
    assert x.tolist() == [[5.0, 5.0], [1.0, 1.0]]
    view.zero_()
    assert x.sum().item() == 0


def test_an_error_leaves_the_mode_in_its_place(torch: Any, modes: Any) -> None:
    class Broken(modes.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            raise KeyError("mode")

    x = square(torch)
    with Broken() as mode:
        for _ in range(2):
            with pytest.raises(KeyError, match="mode"):
                x * 2
            assert modes._get_current_dispatch_mode() is mode
            assert torch.is_grad_enabled()
    assert (x * 2).requires_grad


def test_a_mode_must_return_a_tensor_and_say_what_it_does(torch: Any, modes: Any) -> None:
    x = square(torch)

    class Five(modes.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            return 5

    class Refusing(modes.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            return NotImplemented

    with pytest.raises(RuntimeError, match="Unable to cast 5 to Tensor"), Five():
        x.exp()
    with Refusing():
        with pytest.raises(
            TypeError, match=r"Multiple dispatch failed for 'torch._ops.aten.exp.def"
        ):
            x.exp()
        with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \*: 'Tensor' and"):
            x * 2
    with pytest.raises(NotImplementedError), modes.TorchDispatchMode():
        x.exp()


def test_a_mode_is_its_thread_s_own(torch: Any, modes: Any) -> None:
    x, log = square(torch), logging(modes)
    with log:
        thread = threading.Thread(target=lambda: x * 2)
        thread.start()
        thread.join()
    assert log.calls == []


def test_a_mode_sees_what_a_hook_and_a_custom_function_compute(torch: Any, modes: Any) -> None:
    class Triple(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 3

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad.neg()

    x, log = square(torch), logging(modes)
    y = x * 1
    y.register_hook(lambda grad: grad.abs())
    with log:
        Triple.apply(y).sum().backward()
    assert [n for n in log.names if n in ("aten.mul.Tensor", "aten.neg.default",
                                          "aten.abs.default")] == [
        "aten.mul.Tensor", "aten.neg.default", "aten.abs.default", "aten.mul.Tensor",
    ]  # fmt: skip
    assert x.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_function_modes_come_before_dispatch_modes(torch: Any, modes: Any) -> None:
    overrides = importlib.import_module(f"{torch.__name__}.overrides")
    order: list[str] = []

    class Above(overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            order.append(func.__name__)
            return func(*args, **(kwargs or {}))

    x, log = square(torch), logging(modes)
    with Above(), log:
        torch.nn.functional.linear(x, x)
    assert order == ["linear"]
    assert log.names == ["aten.t.default", "aten.mm.default"]


def test_modes_can_be_switched_off_for_a_while(torch: Any, modes: Any) -> None:
    x, log = square(torch), logging(modes)
    with log:
        with modes._disable_current_modes():
            x * 2
        assert modes.is_in_torch_dispatch_mode()
        x + 1
    assert log.names == ["aten.add.Tensor"]
    assert not modes.is_in_torch_dispatch_mode()


# -- torch.ops.aten ---------------------------------------------------------------------------


def test_overloads_are_found_by_name_and_are_what_modes_get(torch: Any, modes: Any) -> None:
    given: list[Any] = []

    class Keeping(modes.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            given.append(func)
            return func(*args, **(kwargs or {}))

    with Keeping():
        square(torch) * 2
    func, aten = given[-1], torch.ops.aten
    assert func is aten.mul.Tensor
    assert (str(func), func.name(), func._overloadname) == ("aten.mul.Tensor", "aten::mul.Tensor",
                                                            "Tensor")  # fmt: skip
    assert repr(func) == "<OpOverload(op='aten.mul', overload='Tensor')>"
    assert (func.overloadpacket, str(aten.mul)) == (aten.mul, "aten.mul")
    assert str(func._schema) == "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor"
    assert aten.exp.default.name() == "aten::exp"
    assert "Tensor" in aten.mul.overloads()
    with pytest.raises(
        AttributeError, match="'_OpNamespace' 'aten' object has no attribute 'none'"
    ):
        aten.none  # noqa: B018
    with pytest.raises(AttributeError, match=r"underlying op of 'aten.mul' has no overload name"):
        aten.mul.nothing  # noqa: B018


def test_an_overload_called_outside_of_modes_records_its_history(torch: Any, modes: Any) -> None:
    x, aten, log = square(torch), torch.ops.aten, logging(modes)
    for made in (aten.mul.Tensor(x, x), aten.mul(x, x), aten.add.Tensor(x, x, alpha=2)):
        assert made.requires_grad
    assert aten.add.Tensor(x, x, alpha=2).tolist() == (x * 3).tolist()
    with log:
        aten.mul.Tensor(x, x)
    assert log.names == ["aten.mul.Tensor"]


def test_a_mode_may_look_up_what_it_does_with_an_operation(torch: Any, modes: Any) -> None:
    aten = torch.ops.aten
    flops = {aten.mm.default: lambda a, b: 2 * a.shape[0] * a.shape[1] * b.shape[1]}

    class Counting(modes.TorchDispatchMode):
        total = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            if func in flops:
                self.total += flops[func](*args)
            return func(*args, **(kwargs or {}))

    x, w = square(torch), torch.ones(3, 2, requires_grad=True)
    with Counting() as counting:
        torch.nn.functional.linear(x, w).sum().backward()
    assert counting.total == 3 * 2 * 2 * 2 * 3
