"""Custom functions on dual tensors: what jvp is given, what it has to return."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.runtime.both import raises

# PyTorch compiles some jvps when the first dual tensor is made.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated"),
    pytest.mark.usefixtures("level"),
]


@pytest.fixture
def fw(torch: Any) -> Any:
    return torch.autograd.forward_ad


@pytest.fixture
def level(fw: Any) -> Iterator[None]:
    with fw.dual_level():
        yield


@pytest.fixture
def dual(torch: Any, fw: Any) -> Any:
    """A dual tensor that is no view for forward mode."""
    return fw.make_dual(numbers(torch, 1, 2), numbers(torch, 3, 4))


def numbers(torch: Any, *values: float) -> Any:
    return torch.tensor(list(values), dtype=torch.float64)


def mine(torch: Any, **methods: Callable[..., Any]) -> Any:
    """A custom Function of these static methods."""
    body = {name: staticmethod(method) for name, method in methods.items()}
    return type("Mine", (torch.autograd.Function,), body).apply


def listed(fw: Any, tensor: Any) -> Any:
    found = fw.unpack_dual(tensor).tangent
    return None if found is None else found.tolist()


def test_jvp_sees_only_what_was_saved_for_it(torch: Any, fw: Any, dual: Any) -> None:
    seen: list[Any] = []

    def forward(ctx: Any, x: Any, factor: float) -> Any:
        seen.append((listed(fw, x), torch.is_grad_enabled()))
        ctx.factor = factor
        ctx.save_for_backward(x)
        ctx.save_for_forward(x, None)
        return x * x * factor

    def jvp(ctx: Any, x_t: Any, factor_t: Any) -> Any:
        x, nothing = ctx.saved_tensors
        seen.append((listed(fw, x), listed(fw, x_t), nothing, factor_t, ctx.needs_input_grad))
        seen.append((fw._is_fwd_grad_enabled(), torch.is_grad_enabled()))
        return 2 * x * x_t * ctx.factor

    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * x * grad * ctx.factor, None

    made = mine(torch, forward=forward, jvp=jvp, backward=backward)(dual, 10)

    assert listed(fw, made) == [60.0, 160.0]
    assert seen == [(None, False), (None, None, None, None, (False, False)), (False, True)]


def test_what_was_saved_for_backward_is_not_there(torch: Any, fw: Any, dual: Any) -> None:
    seen: list[Any] = []

    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2

    def jvp(ctx: Any, x_t: Any) -> Any:
        seen.append(ctx.saved_tensors)
        return x_t * 2

    assert listed(fw, mine(torch, forward=forward, jvp=jvp)(dual)) == [6.0, 8.0]
    assert seen == [()]


def test_only_tensors_can_be_saved_for_it(torch: Any, dual: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_forward(3)
        return x * 2

    text = raises(AssertionError, lambda: mine(torch, forward=forward)(dual))
    assert text.startswith("save_for_forward expects all arguments to be tensors;")


def test_setup_context_saves_for_it_too(torch: Any, fw: Any, dual: Any) -> None:
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x**3

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_forward(*inputs, output)

        @staticmethod
        def jvp(ctx: Any, x_t: Any) -> Any:
            x, output = ctx.saved_tensors
            return 3 * output / x * x_t

    assert listed(fw, Cube.apply(dual)) == [9.0, 48.0]


def test_missing_tangents_are_zeros_or_none(torch: Any, dual: Any) -> None:
    seen: list[Any] = []

    def jvp(ctx: Any, *tangents: Any) -> Any:
        seen.append([None if t is None else t.tolist() for t in tangents])
        return tangents[0]

    def forward(ctx: Any, x: Any, number: int, y: Any, whole: Any) -> Any:
        ctx.set_materialize_grads(number == 1)
        return x + y + whole

    made = mine(torch, forward=forward, jvp=jvp)
    for number in (1, 2):
        made(dual, number, numbers(torch, 1, 2), torch.tensor([1, 2]))

    assert seen == [[[3.0, 4.0], None, [0.0, 0.0], None], [[3.0, 4.0], None, None, None]]


def test_without_a_dual_input_jvp_is_not_called(torch: Any, dual: Any) -> None:
    made = mine(torch, forward=lambda ctx, x: x * 2)

    assert made(numbers(torch, 1)).tolist() == [2.0]
    assert raises(NotImplementedError, lambda: made(dual)) == (
        "You must implement the jvp function for custom autograd.Function to use it with forward "
        "mode AD."
    )


def test_it_returns_one_tangent_for_each_output(torch: Any, fw: Any, dual: Any) -> None:
    def returning(value: Callable[[Any], Any], outputs: int = 1) -> Callable[[], Any]:
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2 if outputs == 1 else (x * 2, x * 3)

        return lambda: mine(torch, forward=forward, jvp=lambda ctx, g: value(g))(dual)

    wrong = "Function's jvp returned an invalid number of forward gradients "
    assert raises(RuntimeError, returning(lambda g: (g, g))) == wrong + "(expected 1 but got 2)"
    assert raises(RuntimeError, returning(lambda g: g, 2)) == wrong + "(expected 2 but got 1)"
    assert raises(RuntimeError, returning(lambda g: 3)) == (
        "expected Variable or None (got int) for grad output 0."
    )
    assert raises(RuntimeError, returning(lambda g: [g, g], 2)) == (
        "expected Variable or None (got list) for grad output 0."
    )
    assert raises(RuntimeError, returning(lambda g: g[:1])).startswith(
        "Trying to set a forward gradient that has a different size"
    )
    assert raises(RuntimeError, returning(lambda g: dual)).startswith(
        "Setting a forward grad that itself has a forward gradient"
    )
    with pytest.raises(RuntimeError, match="Expected both tensor and its forward grad to be"):
        returning(lambda g: None)()
    with pytest.raises(ZeroDivisionError):
        returning(lambda g: 1 / 0)()
    made = returning(lambda g: (g * 2, g * 3), 2)()
    assert [listed(fw, one) for one in made] == [[6.0, 8.0], [9.0, 12.0]]


def test_outputs_without_a_derivative_have_no_tangent(torch: Any, fw: Any, dual: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        sign = x.sign()
        ctx.mark_non_differentiable(sign)
        return x * 2, sign, x.long(), 7

    made = mine(torch, forward=forward, jvp=lambda ctx, g: (g * 2, None, None, g))(dual)
    assert [listed(fw, one) for one in made[:3]] == [[6.0, 8.0], None, None]
    for surplus in (1, 2):
        tangents = [None, None, None, None]
        call = mine(
            torch,
            forward=forward,
            jvp=lambda ctx, g, at=surplus: tuple(g if i in (0, at) else None for i in range(4)),
        )
        assert len(tangents) == 4
        assert raises(RuntimeError, lambda call=call: call(dual)).startswith(
            f"Function's jvp returned a gradient at position {surplus}, but  the corresponding "
        )


def test_a_view_of_a_view_has_a_tangent_of_the_same_base(torch: Any, fw: Any, dual: Any) -> None:
    part = fw.make_dual(numbers(torch, 1, 2, 3), numbers(torch, 4, 5, 6))[1:]

    def row(jvp: Callable[..., Any]) -> Callable[[], Any]:
        return lambda: mine(torch, forward=lambda ctx, x: x.view(2, 1), jvp=jvp)(part)

    assert listed(fw, row(lambda ctx, g: g.view(2, 1))()) == [[5.0], [6.0]]
    assert raises(RuntimeError, row(lambda ctx, g: g.clone().view(2, 1))) == (
        "A custom Function is returning a view but the jvp is not returning a view of the same "
        "base as the given grad input."
    )


def test_its_tangents_have_a_history(torch: Any, fw: Any, dual: Any) -> None:
    factor = numbers(torch, 5, 6).requires_grad_()
    made = mine(
        torch,
        forward=lambda ctx, x, y: x * y,
        jvp=lambda ctx, x_t, y_t: x_t * factor,
        backward=lambda ctx, grad: (grad, grad),
    )(dual, factor)

    (grad,) = torch.autograd.grad(fw.unpack_dual(made).tangent.sum(), factor)

    assert made.grad_fn.name() == "MineBackward"
    assert grad.tolist() == [3.0, 4.0]
