"""Operators and kernels that users register: `torch.library.Library` and `torch.ops`."""

from __future__ import annotations

import warnings
from typing import Any

import pytest


def refused(call: Any) -> tuple[str, str]:
    """The type and the first line of the error a call ends in."""
    with pytest.raises(Exception) as caught:
        call()
    return type(caught.value).__name__, str(caught.value).partition("\n")[0]


def test_an_operator_is_found_under_its_namespace(torch: Any, name: str) -> None:
    library = torch.library.Library(name, "DEF")

    returned = library.define("foo(Tensor x, float a=2.0, *, bool b=False) -> Tensor")

    packet = getattr(torch.ops, name).foo
    assert returned == "foo"
    assert str(packet) == f"{name}.foo"
    assert repr(packet) == f"<OpOverloadPacket(op='{name}.foo')>"
    assert repr(packet.default) == f"<OpOverload(op='{name}.foo', overload='default')>"
    assert str(packet.default._schema) == (
        f"{name}::foo(Tensor x, float a=2., *, bool b=False) -> Tensor"
    )
    assert packet.overloads() == ["default"]


def test_a_kernel_gets_what_was_given_without_defaults(torch: Any, name: str) -> None:
    library = torch.library.Library(name, "DEF")
    library.define("foo(Tensor x, float a=2.0, int b=3, *, bool c=False) -> Tensor")
    seen: list[Any] = []
    library.impl(
        "foo", lambda *args, **kwargs: seen.append((args[1:], kwargs)) or args[0] * 2, "CPU"
    )
    x = torch.ones(2)

    foo = getattr(torch.ops, name).foo
    result = foo(x)
    foo(x, 4)
    foo(x, b=5, c=True)

    assert result.tolist() == [2.0, 2.0]
    assert seen[1:] == [((4.0,), {}), ((2.0, 5), {"c": True})]


WRONG_CALLS = {
    "nothing": lambda foo, x: foo(),
    "text for a number": lambda foo, x: foo(x, "s"),
    "too many": lambda foo, x: foo(x, 1.0, True),
    "an unknown word": lambda foo, x: foo(x, c=1),
    "a number for a tensor": lambda foo, x: foo(3),
    "no kernel": lambda foo, x: foo(x),
}


@pytest.mark.parametrize("what", WRONG_CALLS)
def test_wrong_calls_are_refused(torch: Any, name: str, what: str) -> None:
    library = torch.library.Library(name, "DEF")
    library.define("foo(Tensor x, float a=2.0, *, bool b=False) -> Tensor")
    schema = f"{name}::foo(Tensor x, float a=2., *, bool b=False) -> Tensor"

    found = refused(lambda: WRONG_CALLS[what](getattr(torch.ops, name).foo, torch.ones(2)))

    expected = {
        "nothing": f"{name}::foo() is missing value for argument 'x'. Declaration: {schema}",
        "text for a number": f"{name}::foo() Expected a value of type 'float' for argument 'a' but "
        "instead found type 'str'.",
        "too many": f"{name}::foo() takes 2 positional argument(s) but 3 was/were given.  "
        f"Declaration: {schema}",
        "an unknown word": f"Unknown keyword argument 'c' for operator '{name}::foo'. "
        f"Schema: {schema}",
        "a number for a tensor": f"{name}::foo() Expected a value of type 'Tensor' for argument "
        "'x' but instead found type 'int'.",
        "no kernel": f"Could not run '{name}::foo' with arguments from the 'CPU' backend.",
    }[what]
    kind = "NotImplementedError" if what == "no kernel" else "RuntimeError"
    assert found[0] == kind
    assert found[1].startswith(expected)


def test_wrong_definitions_are_refused(torch: Any, name: str) -> None:
    library = torch.library.Library(name, "DEF")
    library.define("foo(Tensor x) -> Tensor")

    assert refused(lambda: library.define("f oo(Tensor x) -> Tensor"))[1] == (
        "expected eof but found 'ident' here:"
    )
    assert refused(lambda: library.define("bar(Tenso x) -> Tensor"))[0] == "RuntimeError"
    assert refused(lambda: library.define("foo(Tensor x) -> Tensor"))[1].startswith(
        f"Tried to register an operator ({name}::foo(Tensor x) -> Tensor) with the same name and "
        "overload name multiple times."
    )
    assert refused(lambda: torch.library.Library(name, "DEF"))[1].startswith(
        f"Only a single TORCH_LIBRARY can be used to register the namespace {name};"
    )
    assert refused(lambda: torch.library.Library(name, "NEW")) == (
        "ValueError", "Unsupported kind: NEW",
    )  # fmt: skip
    assert refused(lambda: library.impl("foo", lambda x: x, "NoSuchKey")) == (
        "RuntimeError", "could not parse dispatch key: NoSuchKey",
    )  # fmt: skip


def test_what_is_not_there_is_said(torch: Any, name: str) -> None:
    torch.library.Library(name, "FRAGMENT").define("foo(Tensor x) -> Tensor")
    library = torch.library.Library(name, "FRAGMENT")
    library.define("bar(Tensor x) -> Tensor")

    assert refused(lambda: getattr(torch.ops, name).baz) == (
        "AttributeError", f"'_OpNamespace' '{name}' object has no attribute 'baz'",
    )  # fmt: skip
    assert refused(lambda: getattr(torch.ops, name).bar.out) == (
        "AttributeError", f"The underlying op of '{name}.bar' has no overload name 'out'",
    )  # fmt: skip


def test_overloads_are_chosen_by_their_arguments(torch: Any, name: str) -> None:
    library = torch.library.Library(name, "DEF")
    library.define("foo(Tensor x) -> Tensor")
    library.define("foo.Scalar(Tensor x, float a) -> Tensor")
    library.impl("foo", lambda x: x + 1, "CPU")
    library.impl("foo.Scalar", lambda x, a: x * a, "CPU")

    foo = getattr(torch.ops, name).foo

    assert foo(torch.ones(1)).item() == 2.0
    assert foo(torch.ones(1), 5.0).item() == 5.0
    assert foo.Scalar(torch.ones(1), 3).item() == 3.0


def test_without_an_autograd_kernel_the_calls_inside_are_recorded(torch: Any, name: str) -> None:
    library = torch.library.Library(name, "DEF")
    library.define("foo(Tensor x) -> Tensor")
    library.impl("foo", lambda x: x * 3, "CPU")
    x = torch.ones(2, requires_grad=True)

    result = getattr(torch.ops, name).foo(x)
    with pytest.warns(UserWarning, match="an autograd kernel was not registered"):
        result.sum().backward()

    assert type(result.grad_fn).__name__ == "MulBackward0"
    assert x.grad.tolist() == [3.0, 3.0]


def test_a_result_nobody_can_differentiate_warns_in_backward(torch: Any, name: str) -> None:
    library = torch.library.Library(name, "DEF")
    library.define("foo(Tensor x) -> Tensor")
    library.impl("foo", lambda x: torch.tensor(x.detach().numpy() * 3), "CPU")
    x = torch.ones(2, requires_grad=True)

    result = getattr(torch.ops, name).foo(x)
    with pytest.warns(UserWarning, match="an autograd kernel was not registered"):
        (result * 1).sum().backward()

    assert "WarnNotImplemented" in result.grad_fn.name()
    assert x.grad is None


def test_a_kernel_may_redispatch_below_itself(torch: Any, name: str) -> None:
    library = torch.library.Library(name, "DEF")
    library.define("foo(Tensor x) -> Tensor")
    went: list[str] = []

    def autograd(keys: Any, x: Any) -> Any:
        went.append("autograd")
        assert keys.has(torch._C.DispatchKey.AutogradCPU)
        foo = getattr(torch.ops, name).foo.default
        with torch._C._AutoDispatchBelowAutograd():
            return foo.redispatch(keys & torch._C._after_autograd_keyset, x)

    def cpu(x: Any) -> Any:
        went.append("cpu")
        return x * 2

    library.impl("foo", autograd, "Autograd", with_keyset=True)
    library.impl("foo", cpu, "CPU")

    result = getattr(torch.ops, name).foo(torch.ones(2, requires_grad=True))

    assert went == ["autograd", "cpu"]
    assert result.tolist() == [2.0, 2.0]
    assert not result.requires_grad


def test_a_composite_kernel_is_recorded_piece_by_piece(torch: Any, name: str) -> None:
    library = torch.library.Library(name, "DEF")
    library.define("foo(Tensor x) -> Tensor")
    library.impl("foo", lambda x: (x * 2).exp(), "CompositeImplicitAutograd")
    x = torch.ones(1, requires_grad=True)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = getattr(torch.ops, name).foo(x)
        result.backward()

    assert type(result.grad_fn).__name__ == "ExpBackward0"
    assert x.grad.item() == pytest.approx(2 * 7.389056, rel=1e-5)


@pytest.mark.filterwarnings("ignore:Warning only once")  # said in whichever test is first
def test_a_builtin_kernel_can_be_replaced_and_comes_back(torch: Any, name: str) -> None:
    x = torch.full((2,), 5.0, requires_grad=True)
    library = torch.library.Library("aten", "IMPL")
    calls: list[bool] = []

    def subtract(a: Any, b: Any) -> Any:
        calls.append(a.requires_grad)
        return a + b * -1

    library.impl("sub.Tensor", subtract, "CPU")
    replaced = x - torch.ones(2)
    library._destroy()
    ordinary = x - torch.ones(2)

    assert replaced.tolist() == [4.0, 4.0]
    assert type(replaced.grad_fn).__name__ == type(ordinary.grad_fn).__name__ == "SubBackward0"
    assert len(calls) == 1


@pytest.mark.filterwarnings("ignore:Warning only once")  # said in whichever test is first
def test_autograd_of_a_builtin_can_be_replaced(torch: Any, name: str) -> None:
    library = torch.library.Library("aten", "IMPL")
    library.impl("sin", lambda x: x, "AutogradCPU")
    x = torch.ones(1, requires_grad=True)

    same = torch.sin(x)
    library._destroy()

    assert same is x
    assert type(torch.sin(x).grad_fn).__name__ == "SinBackward0"


def test_modes_see_registered_operators(torch: Any, name: str) -> None:
    from importlib import import_module

    mode_class = import_module(f"{torch.__name__}.utils._python_dispatch").TorchDispatchMode
    library = torch.library.Library(name, "DEF")
    library.define("foo(Tensor x) -> Tensor")
    library.impl("foo", lambda x: x * 2, "CPU")
    names: list[str] = []

    class Mode(mode_class):  # type: ignore[misc]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    with Mode():
        result = getattr(torch.ops, name).foo(torch.ones(1))

    assert result.item() == 2.0
    assert f"{name}.foo.default" in names


def test_a_scoped_library_is_gone_after_its_scope(torch: Any, name: str) -> None:
    with torch.library._scoped_library(name, "FRAGMENT") as library:
        library.define("half(Tensor x) -> Tensor")
        library.impl("half", lambda x: x / 2, "CompositeImplicitAutograd")
        assert getattr(torch.ops, name).half(torch.ones(1)).tolist() == [0.5]

    with pytest.raises(AttributeError):
        _ = getattr(torch.ops, name).half
