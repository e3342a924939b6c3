"""`gradcheck` and `gradgradcheck`: what passes, what does not, and in which words."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from tests.runtime.both import function, leaf, raises

FAST = pytest.mark.parametrize("fast_mode", [False, True])


def home(torch: Any) -> Any:
    """The module `torch.autograd.gradcheck`; the name in the package is the function's."""
    return importlib.import_module(f"{torch.__name__}.autograd.gradcheck")


def failure(torch: Any, action: Callable[[], Any]) -> str:
    """The first line of a GradcheckError."""
    return raises(home(torch).GradcheckError, action)


def complex_leaf(torch: Any, *values: complex) -> Any:
    return torch.tensor(list(values), dtype=torch.complex128, requires_grad=True)


def scaled(torch: Any, factor: float) -> Any:
    """x² whose backward says its derivative is `factor` · x."""

    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return factor * x * grad

    return function(torch, forward, backward).apply


def doubled(torch: Any, backward: Callable[..., Any], *, materialize: bool = True) -> Any:
    """2x with a backward of the test's."""

    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(materialize)
        return x * 2

    return function(torch, forward, backward).apply


# -- what passes ----------------------------------------------------------------------------------


@FAST
def test_right_gradients_pass(torch: Any, *, fast_mode: bool) -> None:
    x, y = leaf(torch, 1.0, 2.0), torch.tensor(3.0, dtype=torch.float64, requires_grad=True)

    def both(a: Any, b: Any) -> Any:
        return (a * b).sin(), a.sum() * b

    assert torch.autograd.gradcheck(both, (x, y), fast_mode=fast_mode) is True
    assert torch.autograd.gradgradcheck(both, (x, y), fast_mode=fast_mode) is True
    assert torch.autograd.gradcheck(scaled(torch, 2.0), [x], fast_mode=fast_mode) is True
    assert x.grad is None
    assert x.tolist() == [1.0, 2.0]


@FAST
def test_what_needs_no_gradient_is_left_alone(torch: Any, *, fast_mode: bool) -> None:
    x, index = leaf(torch, 1.0, 2.0, 3.0), torch.tensor([2, 0])

    def picked(a: Any, at: Any, factor: float, b: Any) -> Any:
        return a[at] * factor * b, (a > 1)[at].long()

    constant = torch.tensor([1.0, 2.0], dtype=torch.float64)
    assert torch.autograd.gradcheck(picked, (x, index, 2.0, constant), fast_mode=fast_mode)


@FAST
def test_outputs_may_be_views_writes_and_the_inputs_themselves(
    torch: Any, *, fast_mode: bool
) -> None:
    x = leaf(torch, 1.0, 2.0, 3.0, 4.0)
    for func in (
        lambda a: a.view(2, 2).t(),
        lambda a: a.clone().mul_(2)[1:],
        lambda a: a,
        lambda a: [a * 2, a],
        lambda a: a.sum().expand(2, 2),
        lambda a: a[:0],
    ):
        assert torch.autograd.gradcheck(func, x, fast_mode=fast_mode)


@FAST
def test_inputs_of_any_layout_pass(torch: Any, *, fast_mode: bool) -> None:
    x = torch.arange(12, dtype=torch.float64).reshape(3, 4).requires_grad_()
    for given in (x.t(), x[:, ::2], x[0, 0], torch.ones(0, 3, dtype=torch.float64)):
        apart = given if given.requires_grad else given.requires_grad_()
        assert torch.autograd.gradcheck(lambda a: a * a, apart, fast_mode=fast_mode)


@FAST
def test_complex_numbers_are_checked_in_halves(torch: Any, *, fast_mode: bool) -> None:
    z = complex_leaf(torch, 1 + 2j, 3 - 1j)
    x = leaf(torch, 1.0, -2.0)
    calls: list[int] = []

    def whole(a: Any) -> Any:
        calls.append(1)
        return a * a.conj() * (1 + 2j)

    assert torch.autograd.gradcheck(whole, z, fast_mode=fast_mode)
    assert torch.autograd.gradcheck(lambda a: a * (1 + 1j), x, fast_mode=fast_mode)
    assert torch.autograd.gradcheck(lambda a: (a.real * a.imag, a), z, fast_mode=fast_mode)
    assert torch.autograd.gradgradcheck(lambda a: a**3, z, fast_mode=fast_mode)
    assert calls


@FAST
def test_a_function_without_a_gradient_must_be_flat(torch: Any, *, fast_mode: bool) -> None:
    x = leaf(torch, 1.0, 2.0)
    zeros = torch.zeros(2, dtype=torch.float64)

    assert torch.autograd.gradcheck(lambda _: zeros, x, fast_mode=fast_mode)
    assert (
        failure(
            torch,
            lambda: torch.autograd.gradcheck(lambda a: a.detach() * 2, x, fast_mode=fast_mode),
        )
        == "Numerical gradient for function expected to be zero"
    )


@FAST
def test_inputs_and_outputs_may_be_on_several_devices(torch: Any, *, fast_mode: bool) -> None:
    device = "cpu" if torch.__name__ == "torch" else "sim:0"
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, device=device, requires_grad=True)
    y = leaf(torch, 3.0, 4.0)

    def both(a: Any, b: Any) -> Any:
        return a * b.to(device), a.to("cpu") + b

    assert torch.autograd.gradcheck(both, (x, y), fast_mode=fast_mode, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(both, (x, y), fast_mode=fast_mode)


def test_the_users_random_numbers_go_on_as_they_were(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    torch.manual_seed(3)
    expected = torch.rand(2).tolist()
    torch.manual_seed(3)

    torch.autograd.gradcheck(lambda a: a * a, x, fast_mode=True)

    assert torch.rand(2).tolist() == expected


def test_checking_counts_no_writes(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)

    torch.autograd.gradcheck(lambda a: a * a, x)
    torch.autograd.gradcheck(lambda a: a * a, x, fast_mode=True)

    assert x._version == 0


# -- what is wrong --------------------------------------------------------------------------------

MISMATCH = "Jacobian mismatch for output 0 with respect to input 0,"


def test_a_wrong_backward_is_shown_with_both_matrices(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)

    with pytest.raises(home(torch).GradcheckError) as caught:
        torch.autograd.gradcheck(scaled(torch, 3.0), x)

    said = str(caught.value)
    assert said.splitlines()[0] == MISMATCH
    assert "numerical:tensor([[2.0000, 0.0000],\n        [0.0000, 4.0000]]" in said
    assert "analytical:tensor([[3., 0.],\n        [0., 6.]], dtype=torch.float64)" in said


def test_fast_mode_says_the_same_and_shows_the_matrices_too(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)

    with pytest.raises(home(torch).GradcheckError) as caught:
        torch.autograd.gradcheck(scaled(torch, 3.0), x, fast_mode=True)

    lines = str(caught.value).splitlines()
    assert lines[0] == MISMATCH
    assert "The max per-element difference (slow mode) is: 1.99999" in str(caught.value)
    assert [line.partition(":")[0] for line in lines[1:3]] == ["numerical", "analytical"]


def test_fast_mode_says_when_slow_mode_would_pass(torch: Any) -> None:
    """Slopes of both signs cancel in the sum that fast mode compares; their errors do not."""
    x = torch.ones(100, dtype=torch.float64, requires_grad=True)
    slopes = torch.tensor([1e3, -1e3] * 50, dtype=torch.float64)
    off = torch.tensor([1 + 5e-4, 1.0] * 50, dtype=torch.float64)
    func = function(torch, lambda _ctx, a: a * slopes, lambda _ctx, grad: grad * slopes * off).apply

    assert torch.autograd.gradcheck(func, x)
    with pytest.raises(home(torch).GradcheckError) as caught:
        torch.autograd.gradcheck(func, x, fast_mode=True)
    assert "Fast gradcheck failed but element-wise differences are small." in str(caught.value)


@FAST
def test_the_output_and_the_input_are_named(torch: Any, *, fast_mode: bool) -> None:
    x, y = leaf(torch, 1.0, 2.0), leaf(torch, 3.0, 4.0)
    wrong = scaled(torch, 3.0)

    assert (
        failure(
            torch,
            lambda: torch.autograd.gradcheck(
                lambda a, b: (a * b, a + wrong(b)), (x, y), fast_mode=fast_mode
            ),
        )
        == "Jacobian mismatch for output 1 with respect to input 1,"
    )


@FAST
@pytest.mark.parametrize(("half", "wrong"), [("imaginary", 2j), ("real", 2.0)])
def test_the_wrong_half_of_a_complex_output_is_named(
    torch: Any, half: str, wrong: complex, *, fast_mode: bool
) -> None:
    """Backward of x · (1 + i), wrong for one half only: seen through a real input."""
    x = leaf(torch, 1.0, 2.0)

    def backward(_ctx: Any, grad: Any) -> Any:
        right = grad.real + grad.imag
        return right + (grad.imag if half == "imaginary" else grad.real)

    func = function(torch, lambda _ctx, a: a * (1 + 1j), backward).apply

    assert (
        failure(torch, lambda: torch.autograd.gradcheck(func, x, fast_mode=fast_mode))
        == f"While considering the {half} part of complex outputs only, {MISMATCH}"
    )


@FAST
def test_a_wrong_second_derivative_is_found(torch: Any, *, fast_mode: bool) -> None:
    """The first is right: only gradgradcheck sees what the backward's own backward does."""
    x = leaf(torch, 1.0, 2.0)

    def inner_forward(ctx: Any, grad: Any, a: Any) -> Any:
        ctx.save_for_backward(grad, a)
        return 3 * a * a * grad

    def inner_backward(ctx: Any, grad: Any) -> Any:
        given, a = ctx.saved_tensors
        return 3 * a * a * grad, a * given * grad

    inner = function(torch, inner_forward, inner_backward).apply

    def forward(ctx: Any, a: Any) -> Any:
        ctx.save_for_backward(a)
        return a**3

    def backward(ctx: Any, grad: Any) -> Any:
        return inner(grad, *ctx.saved_tensors)

    cube = function(torch, forward, backward).apply

    assert torch.autograd.gradcheck(cube, x, fast_mode=fast_mode)
    assert (
        failure(torch, lambda: torch.autograd.gradgradcheck(cube, x, fast_mode=fast_mode))
        == MISMATCH
    )


@FAST
def test_a_backward_that_gives_something_else_each_time_is_found(
    torch: Any, *, fast_mode: bool
) -> None:
    x = leaf(torch, 1.0, 2.0)
    calls: list[int] = []

    def backward(_ctx: Any, grad: Any) -> Any:
        calls.append(1)
        return grad * (2 + 1e-8 * len(calls))

    func = doubled(torch, backward)

    assert failure(torch, lambda: torch.autograd.gradcheck(func, x, fast_mode=fast_mode)) == (
        "Backward is not reentrant, i.e., running backward with same input and grad_output "
        "multiple times gives different values, although analytical gradient matches numerical "
        "gradient.The tolerance for nondeterminism was 0.0."
    )
    assert torch.autograd.gradcheck(func, x, fast_mode=fast_mode, nondet_tol=1e-5)


@FAST
def test_a_backward_must_make_zeros_of_zeros(torch: Any, *, fast_mode: bool) -> None:
    x = leaf(torch, 1.0, 2.0)

    def backward(_ctx: Any, grad: Any) -> Any:
        return grad * 2 if grad.any() else grad + 1

    assert (
        failure(
            torch,
            lambda: torch.autograd.gradcheck(doubled(torch, backward), x, fast_mode=fast_mode),
        )
        == "backward not multiplied by grad_output"
    )


UNDEFINED = (
    "Expected backward function to handle undefined output grads. "
    'Please look at "Notes about undefined output gradients" in "tools/autograd/derivatives.yaml"'
)
NOT_ZERO = (
    "Expected all input grads to be undefined or zero when all output grads are undefined or zero. "
    'Please look at "Notes about undefined output gradients" in "tools/autograd/derivatives.yaml"'
)


@pytest.mark.filterwarnings("ignore:Backwards compatibility")
def test_a_backward_must_bear_gradients_that_never_came(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)

    def refuses(_ctx: Any, grad: Any) -> Any:
        if grad is None:
            raise RuntimeError("no gradient")
        return grad * 2

    def invents(_ctx: Any, grad: Any) -> Any:
        return torch.ones(2, dtype=torch.float64) if grad is None else grad * 2

    def bears(_ctx: Any, grad: Any) -> Any:
        return None if grad is None else grad * 2

    for backward, text in ((refuses, UNDEFINED), (invents, NOT_ZERO)):
        func = doubled(torch, backward, materialize=False)
        assert failure(torch, lambda f=func: torch.autograd.gradcheck(f, x)) == text
        assert torch.autograd.gradcheck(func, x, check_undefined_grad=False)
    assert torch.autograd.gradcheck(doubled(torch, bears, materialize=False), x)


def test_what_cannot_bear_undefined_gradients_is_warned_about_first(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)

    def refuses(_ctx: Any, grad: Any) -> Any:
        if grad is None:
            raise RuntimeError("no gradient")
        return grad * 2

    with pytest.warns(UserWarning, match="New undefined gradient support checking"):
        failure(
            torch,
            lambda: torch.autograd.gradcheck(doubled(torch, refuses, materialize=False), x),
        )


@pytest.mark.filterwarnings("ignore:Backwards compatibility")
def test_of_several_gradients_each_may_be_missing_alone(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)

    def forward(ctx: Any, a: Any) -> Any:
        ctx.set_materialize_grads(False)
        return a * 2, a * 3

    def backward(_ctx: Any, first: Any, second: Any) -> Any:
        if first is None and second is None:
            return None
        return first * 2 + (0 if second is None else second * 3)  # fails where `first` is None

    func = function(torch, forward, backward).apply

    with pytest.raises((home(torch).GradcheckError, TypeError)) as caught:
        torch.autograd.gradcheck(func, x)
    assert isinstance(caught.value, TypeError), "errors of other types come through as they are"


def test_failures_may_come_as_false(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    wrong = scaled(torch, 3.0)

    def check(**how: Any) -> Any:
        return torch.autograd.gradcheck(wrong, x, raise_exception=False, **how)

    assert (check(), check(fast_mode=True), check(atol=10.0)) == (False, False, True)
    assert torch.autograd.gradgradcheck(scaled(torch, 2.0), x, raise_exception=False) is True
    with pytest.raises(ZeroDivisionError):
        torch.autograd.gradcheck(lambda _: 1 / 0, x, raise_exception=False)


def test_a_wrong_backward_passes_with_a_coarse_tolerance(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)

    assert torch.autograd.gradcheck(scaled(torch, 2.1), x, rtol=0.2)
    assert torch.autograd.gradcheck(scaled(torch, 2.1), x, atol=0.5, fast_mode=True)


# -- what cannot be checked -----------------------------------------------------------------------


def test_some_input_must_require_a_gradient(torch: Any) -> None:
    text = (
        "gradcheck expects at least one input tensor to require gradient, but none of them have "
        "requires_grad=True."
    )
    for given in (torch.ones(2, dtype=torch.float64), torch.tensor([1, 2]), (), 3, None, [[1.0]]):
        assert (
            raises(ValueError, lambda g=given: torch.autograd.gradcheck(lambda *a: a[0], g)) == text
        )


def test_single_precision_is_warned_about(torch: Any) -> None:
    x, y = leaf(torch, 1.0), torch.ones(1, requires_grad=True)

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        torch.autograd.gradcheck(lambda a, b: a * b, (x, y), raise_exception=False)

    assert str(told[0].message) == (
        "Input #1 requires gradient and is not a double precision floating point or complex. This "
        "check will likely fail if all the inputs are not of double precision floating point or "
        "complex. "
    )


def test_memory_that_several_numbers_share_is_refused(torch: Any) -> None:
    x = leaf(torch, 1.0)

    assert raises(
        RuntimeError, lambda: torch.autograd.gradcheck(lambda a, b: a * b, (x, x.expand(3)))
    ) == (
        "The 1th input has a dimension with stride 0. gradcheck only supports inputs that are "
        "non-overlapping to be able to compute the numerical gradients correctly. You should call "
        ".contiguous on the input before passing it to gradcheck."
    )
    assert torch.autograd.gradcheck(lambda a, b: a * b, (x, leaf(torch, 2.0).expand(1, 1)))


def test_a_function_must_return_the_same_kind_of_thing_again(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    calls: list[int] = []

    def shapes(a: Any) -> Any:
        calls.append(1)
        return a.sum() if len(calls) % 2 else a * 2

    def dtypes(a: Any) -> Any:
        calls.append(1)
        return a * 2 if len(calls) % 2 else (a * 2).float()

    assert raises(AssertionError, lambda: torch.autograd.gradcheck(shapes, x)) == (
        "Expected `func` to return outputs with the same shape when inputs are perturbed on index "
        "(0,) by 1e-06, but got: shapes torch.Size([2]) and torch.Size([])."
    )
    calls.clear()
    assert raises(AssertionError, lambda: torch.autograd.gradcheck(dtypes, x, fast_mode=True)) == (
        "Expected `func` to return outputs with the same dtype when inputs are perturbed by 1e-06, "
        "but got: dtypes torch.float32 and torch.float64."
    )


def test_an_error_in_the_function_leaves_the_inputs_as_they_were(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    calls: list[int] = []

    def once(a: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise KeyError("third")
        return a * 2

    with pytest.raises(KeyError):
        torch.autograd.gradcheck(once, x)
    if torch.__name__ != "torch":  # PyTorch leaves them moved
        assert x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("check", "how", "text"),
    [
        (
            "gradcheck",
            {"check_backward_ad": False},
            "Expected at least one of check_forward_ad or check_backward_ad to be True",
        ),
        (
            "gradcheck",
            {"check_backward_ad": False, "check_forward_ad": True, "check_batched_grad": True},
            "Setting check_batched_grad=True requires check_backward_ad to be True",
        ),
        (
            "gradcheck",
            {"check_batched_forward_grad": True},
            "Setting check_batched_forward_grad=True requires check_forward_ad to be True",
        ),
        (
            "gradgradcheck",
            {"check_rev_over_rev": False},
            "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True",
        ),
        (
            "gradgradcheck",
            {"check_rev_over_rev": False, "check_fwd_over_rev": True},
            "Setting check_undefined_grad=True requires check_rev_over_rev to be True",
        ),
        (
            "gradgradcheck",
            {
                "check_rev_over_rev": False,
                "check_fwd_over_rev": True,
                "check_undefined_grad": False,
                "check_batched_grad": True,
            },
            "Setting check_batched_grad=True requires check_rev_over_rev to be True",
        ),
    ],
)
def test_checks_that_need_another_are_refused_without_it(
    torch: Any, check: str, how: dict[str, bool], text: str
) -> None:
    x = leaf(torch, 1.0)

    assert (
        raises(AssertionError, lambda: getattr(torch.autograd, check)(lambda a: a, x, **how))
        == text
    )


# -- batches --------------------------------------------------------------------------------------


def test_batches_of_gradients_are_checked(torch: Any) -> None:
    x, y = leaf(torch, 1.0, 2.0), leaf(torch, 3.0, 4.0)

    def two(a: Any, b: Any) -> Any:
        return a * b, a.sum()

    assert torch.autograd.gradcheck(two, (x, y), check_batched_grad=True)
    assert torch.autograd.gradgradcheck(two, (x, y), check_batched_grad=True)


@pytest.mark.parametrize("error", [RuntimeError, ValueError])
def test_an_error_in_a_batch_is_said_as_such(torch: Any, error: type[Exception]) -> None:
    """Slow mode runs backward twice per number, then comes the batch: two runs one by one first."""
    x = leaf(torch, 1.0)
    runs: list[int] = []

    def backward(_ctx: Any, grad: Any) -> Any:
        runs.append(1)
        if len(runs) > 4:
            raise error("too many")
        return grad * 2

    func = doubled(torch, backward)
    kind = home(torch).GradcheckError if error is RuntimeError else ValueError
    said = raises(kind, lambda: torch.autograd.gradcheck(func, x, check_batched_grad=True))

    batched = "While computing batched gradients, got: too many"
    assert said == (batched if error is RuntimeError else "too many")


# -- gradgradcheck --------------------------------------------------------------------------------


def test_gradgradcheck_takes_gradients_to_start_from(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    seed = torch.tensor([1.0, -1.0], dtype=torch.float64)
    check = torch.autograd.gradgradcheck

    assert check(lambda a: a**3, x, seed)
    assert check(lambda a: (a**3, a**2), x, [seed, seed.clone().requires_grad_()])
    assert check(lambda a: a**3, x, gen_non_contig_grad_outputs=True)


def test_gradgradcheck_moves_the_seeds_too(torch: Any) -> None:
    """A backward whose derivative by what it is given is wrong."""
    x = leaf(torch, 1.0, 2.0)
    wrong = function(torch, lambda _ctx, grad: grad * 2, lambda _ctx, grad: grad * 3).apply
    func = doubled(torch, lambda _ctx, grad: wrong(grad))

    assert torch.autograd.gradcheck(func, x)
    assert (
        failure(torch, lambda: torch.autograd.gradgradcheck(func, x))
        == "Jacobian mismatch for output 0 with respect to input 1,"
    )


def test_a_once_differentiable_backward_has_no_second_derivative(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)

    def forward(ctx: Any, a: Any) -> Any:
        ctx.save_for_backward(a)
        return a**3

    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:
        (a,) = ctx.saved_tensors
        return 3 * a * a * grad

    func = function(torch, forward, backward).apply
    assert torch.autograd.gradcheck(func, x)
    assert failure(torch, lambda: torch.autograd.gradgradcheck(func, x)) == MISMATCH


# -- the older names ------------------------------------------------------------------------------


def test_the_package_has_the_function_and_the_module_the_rest(torch: Any) -> None:
    module = home(torch)

    assert torch.autograd.gradcheck is module.gradcheck
    assert issubclass(module.GradcheckError, RuntimeError)
    assert sorted(module.__all__) == [
        "GradcheckError",
        "get_analytical_jacobian",
        "get_numerical_jacobian",
        "get_numerical_jacobian_wrt_specific_input",
        "gradcheck",
        "gradgradcheck",
    ]


def test_slopes_of_one_input(torch: Any) -> None:
    x, y = leaf(torch, 1.0, 2.0), leaf(torch, 3.0, 4.0)

    found = home(torch).get_numerical_jacobian_wrt_specific_input(
        lambda a, b: (a * b, b), 1, (x, y), (x * y, y), 1e-6
    )

    assert [[[round(v, 6) for v in row] for row in m.tolist()] for m in found] == [
        [[1.0, 0.0], [0.0, 2.0]],
        [[1.0, 0.0], [0.0, 1.0]],
    ]


def test_deprecated_jacobians_still_work(torch: Any) -> None:
    x, y = leaf(torch, 1.0, 2.0), leaf(torch, 3.0, 4.0)
    module = home(torch)

    with pytest.warns(FutureWarning, match="`get_numerical_jacobian` was part of PyTorch's"):
        (numerical,) = module.get_numerical_jacobian(lambda given: given[0] * y, (x,), eps=1e-6)
    with pytest.warns(FutureWarning, match="`get_analytical_jacobian` was part of PyTorch's"):
        analytical, *fits = module.get_analytical_jacobian((x,), x * y)

    assert [[round(v, 6) for v in row] for row in numerical.tolist()] == [[3.0, 0.0], [0.0, 4.0]]
    assert (analytical[0].tolist(), fits) == ([[3.0, 0.0], [0.0, 4.0]], [True, True, True])


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_deprecated_jacobians_refuse_what_they_no_longer_do(torch: Any) -> None:
    x = leaf(torch, 1.0)
    module = home(torch)

    assert raises(
        ValueError, lambda: module.get_numerical_jacobian(lambda g: g[0], (x,), grad_out=2.0)
    ) == (
        "Expected grad_out to be 1.0. get_numerical_jacobian no longer supports values of "
        "grad_out != 1.0."
    )
    assert raises(ValueError, lambda: module.get_analytical_jacobian((x,), x * 1j)) == (
        "Expected output to be non-complex. get_analytical_jacobian no longer supports functions "
        "that return complex outputs."
    )


# -- forward mode ---------------------------------------------------------------------------------

# PyTorch's forward mode loads its decompositions with a function that it has deprecated.
FORWARD = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")


@FORWARD
@FAST
def test_right_tangents_pass(torch: Any, *, fast_mode: bool) -> None:
    x, y = leaf(torch, 1.0, 2.0), torch.tensor(3.0, dtype=torch.float64, requires_grad=True)

    def both(a: Any, b: Any) -> Any:
        return (a * b).sin(), a, a.view(2, 1), (a > 1).long()

    def check(**how: Any) -> Any:
        return torch.autograd.gradcheck(
            both, (x, y), fast_mode=fast_mode, check_forward_ad=True, **how
        )

    assert check()
    assert check(check_backward_ad=False)
    assert check(check_batched_forward_grad=True)
    assert check(check_undefined_grad=False)
    assert torch.autograd.gradgradcheck(
        lambda a, b: a * b, (x, y), fast_mode=fast_mode, check_fwd_over_rev=True
    )


def pushed(torch: Any, jvp: Callable[..., Any]) -> Any:
    """x² with a right backward and the test's own way forward."""

    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x * x

    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * x * grad

    made = function(torch, forward, backward)
    made.jvp = staticmethod(jvp)
    return made.apply


@FORWARD
@FAST
def test_wrong_tangents_are_found(torch: Any, *, fast_mode: bool) -> None:
    x = leaf(torch, 1.0, 2.0)
    right = pushed(torch, lambda ctx, t: ctx.saved_tensors[0] * 2 * t)
    wrong = pushed(torch, lambda ctx, t: ctx.saved_tensors[0] * 3 * t)

    def check(func: Any, **how: Any) -> Any:
        return torch.autograd.gradcheck(
            func, x, fast_mode=fast_mode, check_forward_ad=True, check_undefined_grad=False, **how
        )

    assert check(right)
    assert torch.autograd.gradcheck(wrong, x, fast_mode=fast_mode)
    said = "Jacobian computed with forward mode mismatch for output 0 with respect to input 0,"
    assert failure(torch, lambda: check(wrong)) == said
    assert failure(torch, lambda: check(wrong, check_backward_ad=False)) == said


@FORWARD
@FAST
def test_complex_inputs_are_moved_in_halves(torch: Any, *, fast_mode: bool) -> None:
    z = complex_leaf(torch, 1 + 2j, 3 - 1j)

    def check(func: Any) -> Any:
        return torch.autograd.gradcheck(
            func, z, fast_mode=fast_mode, check_forward_ad=True, check_backward_ad=False
        )

    assert check(lambda a: a * a.conj() * 1j)

    for part in ("imaginary", "real"):

        def jvp(ctx: Any, tangent: Any, half: str = part) -> Any:
            (a,) = ctx.saved_tensors
            kept = tangent.imag if half == "imaginary" else tangent.real
            return 2 * a * (tangent + kept)

        wrong = pushed(torch, jvp)
        assert failure(torch, lambda f=wrong: check(f)) == (
            f"While considering the {part} part of complex inputs only, Jacobian computed with "
            "forward mode mismatch for output 0 with respect to input 0,"
        )


@FORWARD
def test_a_missing_tangent_counts_as_zeros(torch: Any) -> None:
    x, y = leaf(torch, 1.0, 2.0), leaf(torch, 3.0, 4.0)

    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.set_materialize_grads(False)
        return a + b

    made = function(torch, forward, lambda _ctx, grad: (grad, grad))

    def jvp(_ctx: Any, first: Any, second: Any) -> Any:
        if first is None or second is None:
            return (second if first is None else first) * 2
        return first + second

    made.jvp = staticmethod(jvp)
    call = made.apply

    def check(**how: Any) -> Any:
        return torch.autograd.gradcheck(
            call, (x, y), check_forward_ad=True, check_backward_ad=False, **how
        )

    assert check(check_undefined_grad=False)
    said = failure(torch, check)
    assert said.startswith("('Mismatch in tangent values for output with index: ', 0, ' when input")
