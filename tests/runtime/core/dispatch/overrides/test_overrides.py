"""`__torch_function__`: subclasses, modes and strangers see the calls of users, each once."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def overrides(torch: Any) -> Any:
    return importlib.import_module(f"{torch.__name__}.overrides")


@pytest.fixture
def F(torch: Any) -> Any:
    return torch.nn.functional


def logging(overrides: Any) -> Any:
    """A mode that keeps the names of what it sees, with positional arguments counted."""

    class Log(overrides.TorchFunctionMode):
        def __init__(self) -> None:
            super().__init__()
            self.calls: list[Any] = []

        @property
        def names(self) -> list[str]:
            return [name for name, _, _ in self.calls]

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            kwargs = kwargs or {}
            self.calls.append((overrides.resolve_name(func), len(args), sorted(kwargs)))
            return func(*args, **kwargs)

    return Log()


def refusing(torch: Any) -> Any:
    class Refusing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            return NotImplemented

    return torch.ones(2).as_subclass(Refusing)


def first_line(action: Callable[[], Any]) -> str:
    with pytest.raises(TypeError) as refused:
        action()
    return str(refused.value).splitlines()[0]


# -- what is seen -----------------------------------------------------------------------------

SEEN: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "a function": (lambda t, x: t.add(x, 1), ["torch.add"]),
    "a method": (lambda t, x: x.add(1), ["torch.Tensor.add"]),
    "an operator": (lambda t, x: x + 1, ["torch.Tensor.add"]),
    "a number first": (lambda t, x: 1 + x, ["torch.Tensor.add"]),
    "a number first, minus": (lambda t, x: 1 - x, ["torch.Tensor.__rsub__"]),
    "a power": (lambda t, x: x**2, ["torch.Tensor.__pow__"]),
    "a product": (lambda t, x: x @ x, ["torch.Tensor.matmul"]),
    "a comparison": (lambda t, x: x < 1, ["torch.Tensor.lt"]),
    "equality": (lambda t, x: x == x, ["torch.Tensor.__eq__"]),  # noqa: PLR0124
    "a sign": (lambda t, x: -x, ["torch.Tensor.neg"]),
    "an index": (lambda t, x: x[0], ["torch.Tensor.__getitem__"]),
    "an iteration": (
        lambda t, x: list(x),
        ["torch.Tensor.dim", "torch.Tensor.unbind", "torch.Tensor.__len__"],
    ),
    "a truth": (lambda t, x: bool(x[0, 0]), ["torch.Tensor.__getitem__", "torch.Tensor.__bool__"]),
    "a reduction": (lambda t, x: x.mean(0), ["torch.Tensor.mean"]),
    "an alias": (lambda t, x: (t.multiply(x, 2), x.subtract(1)), ["torch.multiply",
                                                                  "torch.Tensor.subtract"]),
    "a write": (lambda t, x: x.detach().add_(1), ["torch.Tensor.detach", "torch.Tensor.add_"]),
    "a property": (lambda t, x: x.shape, ["torch.Tensor.shape.__get__"]),
    "a property set": (
        lambda t, x: setattr(x, "requires_grad", True), ["torch.Tensor.requires_grad.__set__"]
    ),
    "a factory": (lambda t, x: t.zeros(2), ["torch.zeros"]),
    "a like": (lambda t, x: t.ones_like(x), ["torch.ones_like"]),
    "several tensors": (lambda t, x: t.cat([x, x]), ["torch.cat"]),
    "einsum": (lambda t, x: t.einsum("ij,jk->ik", x, x), ["torch.functional.einsum"]),
    "split": (lambda t, x: (t.split(x, 1), x.split(1)), ["torch.functional.split",
                                                         "torch.Tensor.split"]),
    "norm": (lambda t, x: (t.norm(x), x.norm()), ["torch.functional.norm", "torch.Tensor.norm"]),
    "a composite": (lambda t, x: t.nn.functional.softmax(x, 0), ["torch.nn.functional.softmax"]),
    "a loss": (lambda t, x: t.nn.functional.mse_loss(x, x), ["torch.nn.functional.mse_loss"]),
    "F.sigmoid": (lambda t, x: t.nn.functional.sigmoid(x), ["torch.Tensor.sigmoid"]),
    "F.linear": (lambda t, x: t.nn.functional.linear(x, x), ["torch.nn.functional.linear"]),
    "F.prelu": (lambda t, x: t.nn.functional.prelu(x, x[0, :1]), ["torch.Tensor.__getitem__",
                                                                  "torch.nn.functional.prelu"]),
    "a module": (lambda t, x: t.nn.Linear(2, 3)(x), ["torch.nn.functional.linear"]),
    "backward": (lambda t, x: (x * 2).sum().backward(), ["torch.Tensor.mul", "torch.Tensor.sum",
                                                         "torch.Tensor.backward"]),
    "a hook": (lambda t, x: x.register_hook(print), ["torch.Tensor.register_hook"]),
    "a copy": (lambda t, x: __import__("copy").deepcopy(x), ["torch.Tensor.__deepcopy__"]),
    "a text": (lambda t, x: repr(x), ["torch.Tensor.__repr__"]),
    "special": (lambda t, x: t.special.expit(x), ["torch.special.expit"]),
    "is_tensor": (lambda t, x: t.is_tensor(x), []),
    "numel": (lambda t, x: (t.numel(x), x.numel()), ["torch.numel", "torch.Tensor.numel"]),
}  # fmt: skip


@pytest.mark.parametrize("what", SEEN)
def test_a_mode_sees_each_call_once_as_what_the_user_called(
    torch: Any, overrides: Any, what: str
) -> None:
    act, names = SEEN[what]
    x = torch.ones(2, 2, requires_grad=True)
    log = logging(overrides)
    module_made = {"torch.empty", "torch.nn.init.kaiming_uniform_", "torch.nn.init.uniform_",
                   "torch.Tensor.dim", "torch.Tensor.size"}  # fmt: skip
    with log:
        act(torch, x)
    seen = log.names
    if what == "a module":  # what its constructor does besides is not the same everywhere
        seen = [name for name in seen if name not in module_made]
        seen = [name for name in seen if name == "torch.nn.functional.linear"]
    assert seen == names


def test_arguments_come_as_they_were_given(torch: Any, overrides: Any, F: Any) -> None:
    x, log = torch.ones(2, 2), logging(overrides)
    with log:
        torch.add(x, x, alpha=2)
        torch.sum(x, dim=0)
        x.sum(0)
        F.relu(x)  # written in Python in PyTorch: passed on with all its options
        F.embedding(torch.tensor([0]), x)
        x.split(1)
    assert log.calls == [
        ("torch.add", 2, ["alpha"]),
        ("torch.sum", 1, ["dim"]),
        ("torch.Tensor.sum", 2, []),
        ("torch.nn.functional.relu", 1, ["inplace"]),
        ("torch.tensor", 1, []),
        ("torch.nn.functional.embedding", 2, ["max_norm", "norm_type", "padding_idx",
                                              "scale_grad_by_freq", "sparse"]),
        ("torch.Tensor.split", 2, ["dim"]),
    ]  # fmt: skip


def test_grad_mode_is_seen_when_it_changes(torch: Any, overrides: Any) -> None:
    log = logging(overrides)
    with log:
        with torch.no_grad():
            inside = torch.is_grad_enabled()
        assert torch.is_grad_enabled()
    assert not inside
    assert log.calls == [(None, 1, []), (None, 1, [])]


def test_formulas_and_engine_are_nobody_s_business(torch: Any, overrides: Any) -> None:
    x, log = torch.ones(2, requires_grad=True), logging(overrides)
    y = (x.exp() * x.sigmoid()).sum()
    called: list[str] = []

    def hook(grad: Any) -> Any:
        called.append("hook")
        return grad * 2

    y.register_hook(hook)
    with log:
        (first,) = torch.autograd.grad(y, x, create_graph=True)
    assert (called, log.names) == (["hook"], [None])
    assert first.requires_grad


# -- modes ------------------------------------------------------------------------------------


def test_modes_nest_the_innermost_first(torch: Any, overrides: Any) -> None:
    order: list[str] = []

    class Named(overrides.TorchFunctionMode):
        def __init__(self, name: str) -> None:
            self.name = name

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            current = overrides._get_current_function_mode()
            order.append(f"{self.name} in {current and current.name}")
            return func(*args, **(kwargs or {}))

    with Named("outer"), Named("inner"):
        assert [m.name for m in overrides._get_current_function_mode_stack()] == ["outer", "inner"]
        torch.ones(2)
    assert order == ["inner in outer", "outer in None"]
    assert overrides._get_current_function_mode() is None


def test_a_mode_may_enter_itself_and_see_its_own_calls(torch: Any, overrides: Any) -> None:
    order: list[str] = []

    class Reentering(overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            order.append(func.__name__)
            if func is torch.add:
                with self:
                    return torch.mul(*args, **(kwargs or {}))
            return func(*args, **(kwargs or {}))

    with Reentering() as mode, mode:
        torch.add(torch.ones(1), 2)
    assert order == ["ones", "ones", "add", "mul", "mul"]


def test_a_mode_replaces_what_a_call_returns(torch: Any, overrides: Any) -> None:
    class Doubling(overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            result = func(*args, **(kwargs or {}))
            return result * 2 if func is torch.ones else result

    with Doubling():
        assert torch.ones(2).tolist() == [2.0, 2.0]


def test_a_mode_that_raises_is_left_as_it_was(torch: Any, overrides: Any) -> None:
    class Broken(overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            raise KeyError("mode")

    with Broken() as mode:
        for _ in range(2):
            with pytest.raises(KeyError, match="mode"):
                torch.ones(2)
            assert overrides._get_current_function_mode() is mode
    assert torch.ones(1).item() == 1


def test_a_mode_is_its_thread_s_own(torch: Any, overrides: Any) -> None:
    log = logging(overrides)
    with log:
        thread = threading.Thread(target=torch.ones, args=(2,))
        thread.start()
        thread.join()
    assert log.calls == []


def test_the_base_mode_changes_nothing_and_push_is_old(torch: Any, overrides: Any) -> None:
    log = logging(overrides)
    with log, overrides.BaseTorchFunctionMode():
        assert torch.ones(2).sum().item() == 2
    assert log.names == ["torch.ones", "torch.Tensor.sum", "torch.Tensor.item"]
    with pytest.warns(UserWarning, match=r"`Mode.push\(\)` is no longer necessary"):
        overrides.BaseTorchFunctionMode.push()
    with pytest.raises(NotImplementedError):
        overrides.TorchFunctionMode().__torch_function__(torch.add, ())


def test_what_is_redispatched_is_skipped_once(torch: Any, overrides: Any) -> None:
    order: list[str] = []

    def scaled(a: Any, b: Any) -> Any:
        if overrides.has_torch_function((a, b)):
            return overrides.handle_torch_function(scaled, (a, b), a, b)
        return a * b + 1

    class Log(overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            order.append(func.__name__)
            with self:
                return overrides.redispatch_function(func, types, args, kwargs or {})

    a = torch.ones(1)
    with Log():
        result = scaled(a, a)
    assert result.item() == 2
    assert order == ["scaled", "mul", "add"]


# -- subclasses -------------------------------------------------------------------------------


def test_a_subclass_s_tensors_stay_of_its_class(torch: Any, F: Any) -> None:
    class Mine(torch.Tensor):
        pass

    x = torch.ones(2, 2).as_subclass(Mine)
    x.extra = 5
    results = [
        x + 1, 1 + x, torch.add(torch.ones(2, 2), x), F.relu(x), x[0], x.sum(), x.detach(), x.data,
        torch.stack([x, x]), torch.max(x, 0).values, x.unbind()[0], x.split(1)[0], next(iter(x)),
    ]  # fmt: skip
    assert {type(each) for each in results} == {Mine}
    assert not hasattr(results[0], "extra")
    assert x.add_(1) is x
    assert repr(x[0]) == "Mine([2., 2.])"
    assert type(x.tolist()) is list
    assert x.shape == (2, 2)


def test_a_class_without_dispatch_wraps_nothing(torch: Any) -> None:
    class Mine(torch.Tensor):
        pass

    said = first_line(lambda: torch.Tensor._make_wrapper_subclass(Mine, (2,)))
    assert said == "Mine must define __torch_dispatch__"


def test_a_class_that_would_never_be_asked_is_refused() -> None:
    import gradscope.runtime as ours

    class Mine(ours.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            raise AssertionError

    for make in (
        lambda: ours.Tensor._make_wrapper_subclass(Mine, (2,)),
        lambda: ours.Tensor._make_subclass(Mine, ours.ones(2)),
        lambda: ours.ones(2).as_subclass(Mine),
    ):
        with pytest.raises(NotImplementedError, match="Mine defines `__torch_dispatch__`, which"):
            make()


def test_gradients_of_a_subclass_s_tensors_are_plain(torch: Any) -> None:
    class Mine(torch.Tensor):
        pass

    x = torch.ones(2).as_subclass(Mine).requires_grad_()
    y = x * 2
    assert (type(y), type(y.grad_fn).__name__) == (Mine, "AliasBackward0")
    y.sum().backward()
    assert type(x.grad) is torch.Tensor
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_subclass_sees_functions_methods_operators_and_properties(torch: Any, F: Any) -> None:
    called: list[tuple[str, Any, int]] = []

    class Seeing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            called.append((func.__name__, types, len(args)))
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.ones(2).as_subclass(Seeing)
    torch.add(torch.ones(2), x)
    x.neg()
    x - 1
    F.gelu(x)
    len(x)
    x.grad  # noqa: B018
    assert called == [
        ("add", (Seeing,), 2), ("neg", (Seeing,), 1), ("sub", (Seeing,), 2),
        ("gelu", (Seeing,), 1), ("__len__", (Seeing,), 1), ("__get__", (Seeing,), 1),
    ]  # fmt: skip


def test_subclasses_come_before_their_bases(torch: Any) -> None:
    order: list[str] = []

    class Base(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            order.append(cls.__name__)
            return NotImplemented

    class Derived(Base):
        pass

    class Other(Base):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            order.append("Other")
            return [each.__name__ for each in types]

    a, b, c = (torch.ones(1).as_subclass(cls) for cls in (Base, Other, Derived))
    assert torch.stack([a, b, c, b]) == ["Other", "Derived", "Base"]
    assert order == ["Other"]


def test_a_subclass_that_wants_no_part_is_a_plain_tensor(torch: Any) -> None:
    class Quiet(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

    x = torch.ones(2).as_subclass(Quiet)
    assert type(x + 1) is torch.Tensor
    assert type(torch.nn.Parameter(torch.ones(1)) + 1) is torch.Tensor


def test_overriding_can_be_disabled(torch: Any, overrides: Any) -> None:
    class Mine(torch.Tensor):
        pass

    x, log = torch.ones(2).as_subclass(Mine), logging(overrides)
    with torch._C.DisableTorchFunctionSubclass():
        assert type(x + 1) is torch.Tensor
        with log:
            x + 1
    with torch._C.DisableTorchFunction(), log:
        assert type(x + 1) is torch.Tensor
    assert log.names == ["torch.Tensor.add"]
    assert type(x + 1) is Mine


def test_a_parameter_of_a_subclass_is_both(torch: Any) -> None:
    class Mine(torch.Tensor):
        pass

    made = torch.nn.Parameter(torch.ones(2).as_subclass(Mine))
    assert (type(made), made.requires_grad, made.is_leaf) == (Mine, True, True)
    assert isinstance(made, torch.nn.Parameter)
    module = torch.nn.Module()
    module.weight = made
    assert [name for name, _ in module.named_parameters()] == ["weight"]


def test_what_a_custom_function_returns_as_it_is_stays_of_its_class(torch: Any) -> None:
    called: list[str] = []

    class Seeing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            called.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 3

    x = torch.ones(2).as_subclass(Seeing).requires_grad_()
    called.clear()
    y = Same.apply(x)
    assert (type(y), called) == (Seeing, ["view_as"])
    assert type(Same.apply(torch.nn.Parameter(torch.ones(1)))) is torch.Tensor
    called.clear()
    torch.autograd.backward(y.sum())
    assert called == ["sum", "backward"]  # and nothing of what the engine asks of tensors
    assert x.grad.tolist() == [3.0, 3.0]


def test_a_plain_method_is_warned_of(torch: Any, F: Any) -> None:
    class Old(torch.Tensor):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            return "handled"

    x = torch.ones(2).as_subclass(Old)
    with pytest.warns(DeprecationWarning, match="as a plain method is deprecated and will be an"):
        assert F.softmax(x, 0) == "handled"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.add(x, 1) == "handled"


# -- nobody wants it --------------------------------------------------------------------------

REFUSED: dict[str, tuple[Callable[..., Any], str]] = {
    "a function": (lambda t, x: t.add(x, 1), "torch.add"),
    "a method": (lambda t, x: x.add(1), "torch.Tensor.add"),
    "a property": (lambda t, x: x.shape, "torch.Tensor.shape.__get__"),
    "a property set": (lambda t, x: setattr(x, "grad", None), "torch.Tensor.grad.__set__"),
    "a property deleted": (lambda t, x: delattr(x, "grad"), "torch.Tensor.grad.__delete__"),
    "an index": (lambda t, x: x[0], "torch.Tensor.__getitem__"),
    "of nn": (lambda t, x: t.nn.functional.linear(x, x), "torch.nn.linear"),
    "of special": (lambda t, x: t.special.expit(x), "torch.special.special_expit"),
    "in Python": (lambda t, x: t.nn.functional.softmax(x, 0), "torch.nn.functional.softmax"),
    "of functional": (lambda t, x: t.split(x, 1), "torch.functional.split"),
    "a method in Python": (lambda t, x: x.split(1), "torch._tensor.split"),
    "backward": (lambda t, x: x.backward(), "torch._tensor.backward"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_call_that_nobody_takes_says_who_was_asked(torch: Any, what: str) -> None:
    act, name = REFUSED[what]
    x = refusing(torch)
    with pytest.raises(TypeError) as refused:
        act(torch, x)
    text = str(refused.value)
    if name.startswith(("torch.nn.functional", "torch.functional", "torch._tensor")):
        assert text == (
            f"no implementation found for '{name}' on types that implement __torch_function__: "
            f"[{type(x)}]"
        )
    else:
        lines = text.splitlines()
        asked = "all __torch_function__ handlers returned NotImplemented:"
        assert lines[:2] == [f"Multiple dispatch failed for '{name}'; {asked}", ""]
        assert lines[2] == f"  - tensor subclass {type(x)}"


def test_a_mode_that_takes_nothing_is_named_too(torch: Any, overrides: Any, F: Any) -> None:
    class Refusing(overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            return NotImplemented

        def __repr__(self) -> str:
            return "the mode"

    x = torch.ones(2)
    with Refusing():
        with pytest.raises(TypeError) as native:
            torch.exp(x)
        with pytest.raises(TypeError) as python:
            F.softmax(x, 0)
    assert "\n  - mode object the mode" in str(native.value)
    assert str(python.value).endswith(f"[{torch.Tensor}] nor in mode the mode") or str(
        python.value
    ).endswith("[] nor in mode the mode")


def test_an_operator_nobody_takes_lets_python_ask_the_other_operand(torch: Any) -> None:
    x = refusing(torch)
    expected = "unsupported operand type(s) for +: 'Refusing' and 'int'"
    assert first_line(lambda: x + 1) == expected
    assert first_line(lambda: 1 - x).startswith("unsupported operand type(s) for -: 'int' and")
    assert (x == 1) is False

    class Other:
        def __radd__(self, other: Any) -> str:
            return "taken"

    assert x + Other() == "taken"


# -- strangers and users' own functions -------------------------------------------------------


def test_what_is_no_tensor_may_handle_functions(torch: Any, overrides: Any) -> None:
    class Scalar:
        def __init__(self, value: float) -> None:
            self.value = value

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            if func is torch.mean:
                return args[0].value
            return func.__name__, types

    assert torch.mean(Scalar(3)) == 3
    assert torch.add(Scalar(1), torch.ones(2)) == ("add", (Scalar,))
    assert torch.cat([torch.ones(1), Scalar(1)]) == ("cat", (Scalar,))
    assert torch.ones(1).add(Scalar(1)) == ("add", (Scalar,))
    likes = [overrides.is_tensor_like(each) for each in (Scalar(1), torch.ones(1), 1)]
    assert likes == [True, True, False]


def test_a_stranger_is_recognised_before_anybody_overrides_anything() -> None:
    script = (
        "import gradscope.runtime as torch\n"
        "class Duck:\n"
        "    @classmethod\n"
        "    def __torch_function__(cls, func, types, args=(), kwargs=None):\n"
        "        return func is torch.add, len(args), kwargs\n"
        "print(torch.add(torch.ones(1), Duck()), torch.add(Duck(), 1, alpha=3))\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "(True, 2, {}) (True, 2, {'alpha': 3})\n"


def test_a_user_s_function_may_be_overridden(torch: Any, overrides: Any) -> None:
    class Mine(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            return func.__name__, types, args, kwargs

    @overrides.wrap_torch_function(lambda a, b=1: (a,))
    def mine(a: Any, b: int = 1) -> Any:
        return a + b

    x = torch.ones(1).as_subclass(Mine)
    assert mine(torch.ones(1)).item() == 2
    assert mine(x, b=2) == ("mine", (Mine,), (x,), {"b": 2})
    with overrides.BaseTorchFunctionMode():
        assert mine(torch.ones(1)).item() == 2
    with pytest.raises(TypeError, match=r"no implementation found for '.*\.other' on types that"):
        y = refusing(torch)

        @overrides.wrap_torch_function(lambda a: (a,))
        def other(a: Any) -> Any: ...

        other(y)


def test_whether_anybody_wants_to_see_a_call(torch: Any, overrides: Any) -> None:
    has, x = overrides.has_torch_function, refusing(torch)
    assert [has((torch.ones(1),)), has((x,)), has(([x],)), has(())] == [False, True, False, False]
    assert overrides.has_torch_function_unary(x)
    assert overrides.has_torch_function_variadic(1, x)
    with overrides.BaseTorchFunctionMode():
        assert has((torch.ones(1),))
        assert not has(())
    with torch._C.DisableTorchFunctionSubclass():
        assert not has((x,))
    with pytest.raises(TypeError, match="expected a sequence"):
        has(1)


# -- what there is ----------------------------------------------------------------------------


def test_functions_and_methods_are_told_apart_by_name(torch: Any, overrides: Any) -> None:
    named = overrides.resolve_name
    T = torch.Tensor
    assert torch.add is not T.add
    assert [named(f) for f in (torch.add, T.add, T.shape.__get__, T.grad.__set__, print)] == [
        "torch.add", "torch.Tensor.add", "torch.Tensor.shape.__get__", "torch.Tensor.grad.__set__",
        None,
    ]  # fmt: skip
    of_tensors = overrides.is_tensor_method_or_property
    assert [of_tensors(f) for f in (T.add, torch.add, T.shape.__get__)] == [True, False, True]


def test_what_can_be_overridden_is_listed(torch: Any, overrides: Any) -> None:
    listed = overrides.get_overridable_functions()
    assert torch.add in listed[torch]
    assert torch.Tensor.add in listed[torch.Tensor]
    assert torch.nn.functional.softmax in listed[torch.nn.functional]
    assert torch.zeros not in listed[torch]
    ignored = overrides.get_ignored_functions()
    assert {torch.zeros, torch.is_tensor, torch.manual_seed} <= ignored
    assert torch.add not in ignored
    testing = overrides.get_testing_overrides()
    assert testing[torch.add](1, 2) == -1
    assert torch.Tensor.grad.__get__ in overrides.get_default_nowrap_functions()


@pytest.mark.torch
def test_every_public_function_has_the_name_it_has_in_pytorch() -> None:
    import torch

    import gradscope.runtime.overrides as ours

    here = {name for name in ours._names().values() if not name.startswith("torch.Tensor._")}
    there = set(torch.overrides._get_overridable_functions()[1].values())
    ours_alone = {name for name in here - there if not name.endswith("__set__")}
    known = {
        "linalg_vector_norm", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d",
        "replication_pad1d", "replication_pad2d", "replication_pad3d", "rsub", "embedding",
        "constant_pad_nd", "diagonal_copy", "unfold", "view_as_complex", "view_as_real",
        "mm",  # PyTorch has it under several names
    }  # fmt: skip
    assert {name.rpartition(".")[2] for name in ours_alone} <= known


@pytest.mark.torch
def test_what_is_one_object_in_pytorch_is_one_here() -> None:
    import torch
    from torch.nn import functional as theirs

    import gradscope.runtime as top
    from gradscope.runtime.nn import functional as ours

    names = [n for n in dir(ours) if hasattr(top, n) and hasattr(torch, n) and n[0] != "_"]
    callables = [n for n in names if callable(getattr(ours, n)) and hasattr(theirs, n)]
    assert len(callables) > 12
    for name in callables:
        same = getattr(ours, name) is getattr(top, name)
        assert same == (getattr(theirs, name) is getattr(torch, name)), name


def test_a_warning_names_the_user_s_line_through_a_gate_too(torch: Any, overrides: Any) -> None:
    y = torch.ones(2, requires_grad=True) * 2
    with overrides.BaseTorchFunctionMode():
        pass
    with pytest.warns(UserWarning, match="not a leaf Tensor is being accessed") as caught:
        y.grad  # noqa: B018
    assert [each.filename for each in caught] == [__file__]
    with pytest.warns(UserWarning, match="different to the input size") as caught:
        torch.nn.functional.mse_loss(torch.ones(2), torch.ones(1))
    assert [each.filename for each in caught] == [__file__]


def test_calls_are_not_asked_about_before_somebody_overrides() -> None:
    script = (
        "import gradscope.runtime as torch\n"
        "import gradscope.runtime.overrides, gradscope.runtime.utils.checkpoint\n"
        "from gradscope.runtime.core.dispatch.overrides import gates\n"
        "before = gates.are_up(), torch.add.__code__.co_filename.endswith('gate>')\n"
        "class Mine(torch.Tensor): pass\n"
        "print(before, gates.are_up(), torch.add.__code__.co_filename.endswith('gate>'))\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "(False, False) True True\n"


def test_a_debugger_sees_the_locals_of_every_frame_behind_a_gate() -> None:
    """A gate before a function with a closure once had none, which Python does not survive."""
    import gradscope.runtime as ours

    F = ours.nn.functional

    class Mode(ours.overrides.TorchFunctionMode):
        pass

    with Mode(), pytest.raises(RuntimeError) as refused:
        F.max_pool2d(ours.ones(2, 6, 6), (1, 2, 3))

    frame, seen = refused.value.__traceback__, []
    while frame is not None:
        seen.append(set(frame.tb_frame.f_locals))
        frame = frame.tb_next
    assert any("before" in names for names in seen)


def test_a_mode_sees_functions_that_autocast_casts_as_a_whole(torch: Any, overrides: Any) -> None:
    """Whichever of the two a program uses first: here modes, since tests before may have."""
    F, x = torch.nn.functional, torch.ones(2, 2)
    with logging(overrides):
        F.linear(x, x)
    with torch.autocast("cpu"):
        F.linear(x, x)
    log = logging(overrides)
    with log, torch.autocast("cpu"):
        made = [F.linear(x, x), torch.cat([x, x]), F.prelu(x, x[0, :1])]
    assert [each.dtype for each in made] == [torch.bfloat16, torch.float32, torch.bfloat16]
    assert log.names[-4:] == [
        "torch.nn.functional.linear", "torch.cat", "torch.Tensor.__getitem__",
        "torch.nn.functional.prelu",
    ]  # fmt: skip
