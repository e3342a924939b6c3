"""Further properties of derivatives: zeros, undefined gradients, batches."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from gradscope.runtime.autograd import forward_ad
from gradscope.runtime.autograd.gradcheck.case import (
    Case,
    GradcheckError,
    as_tuple,
    differentiable_outputs,
    is_inexact,
    positions,
    wants_grad,
)
from gradscope.runtime.autograd.gradcheck.comparing import random_vectors
from gradscope.runtime.autograd.gradcheck.words import (
    BATCHED,
    BATCHED_FORWARD,
    UNDEFINED_NOT_ZERO,
    UNDEFINED_REFUSED,
    UNDEFINED_WARNING,
    batched_differs,
)
from gradscope.runtime.core.autograd.batched import one_by_one
from gradscope.runtime.core.autograd.custom.function import Function
from gradscope.runtime.core.autograd.engine.backward import grad
from gradscope.runtime.core.rows.offered import FUNCTIONS
from gradscope.runtime.core.tensors.tensor.tensor import Tensor


class UndefinedGrad(Function):
    """Identity whose backward returns an undefined gradient."""

    @staticmethod
    def forward(_ctx: Any, value: Any) -> Any:
        return value.view_as(value)

    @staticmethod
    def backward(_ctx: Any, _grad: Any) -> None:
        return None


def zeros_give_zeros(outputs: Sequence[Any], inputs: Sequence[Any], *, masked: bool | None) -> None:
    """Check that a backward returns zeros for zeros."""
    wanted = [one for one in inputs if wants_grad(one)]
    found = grad(outputs, wanted, [o.new_zeros(o.shape) for o in outputs], allow_unused=True)
    for gradient, one in zip(found, wanted, strict=True):
        if gradient is None:
            continue
        zero = (
            FUNCTIONS["allclose"](gradient, gradient.new_zeros(()))
            if masked
            else (gradient == 0).all()
        )
        if not zero:
            raise GradcheckError("backward not multiplied by grad_output")
        for what, name in (("dtype", "type"), ("device", "device"), ("shape", "size")):
            if getattr(gradient, what) != getattr(one, what):
                raise GradcheckError(f"grad is incorrect {name}")


def undefined_gradients(func: Callable[..., Any], count: int, inputs: Sequence[Any]) -> None:
    """Check that undefined gradients count as zeros: all of them, then each separately."""
    wanted = [one for one in inputs if wants_grad(one)]
    first = differentiable_outputs(func(*inputs))
    tries = [[UndefinedGrad.apply(output) for output in first]]
    if len(tries[0]) > 1:
        for missing in range(count):
            again = differentiable_outputs(func(*inputs))
            tries.append(
                [UndefinedGrad.apply(o) if i == missing else o for i, o in enumerate(again)]
            )
    for outputs in tries:
        _check_undefined(outputs, wanted)


def _check_undefined(outputs: Sequence[Any], wanted: Sequence[Any]) -> None:
    zeros = [output.new_zeros(output.shape) for output in outputs]
    try:
        found = grad(outputs, wanted, zeros, allow_unused=True)
    except RuntimeError as error:
        _warn_about_undefined()
        raise GradcheckError(UNDEFINED_REFUSED) from error
    for gradient in found:
        if gradient is not None and not (gradient == 0).all():
            _warn_about_undefined()
            raise GradcheckError(UNDEFINED_NOT_ZERO)


def _warn_about_undefined() -> None:
    warnings.warn(UNDEFINED_WARNING, stacklevel=6)


def undefined_tangents(case: Case) -> None:
    """Check that an input without a tangent is treated like one with a zero tangent."""
    directions, _ = random_vectors(case)
    with forward_ad.dual_level():
        duals = list(case.inputs)
        for (i, one), u in zip(positions(case.inputs), directions, strict=True):
            duals[i] = forward_ad.make_dual(one.detach(), u.view_as(one))
        for i, one in positions(case.inputs):
            dual = duals[i]
            with_zeros = forward_ad.make_dual(one.detach(), one.new_zeros(one.shape))
            results = []
            for given in (with_zeros, one.detach()):
                duals[i] = given
                made = as_tuple(case.func(*duals))
                results.append([forward_ad.unpack_dual(o)[1] for o in made if is_inexact(o)])
            duals[i] = dual
            for nr, (expected, found) in enumerate(zip(*results, strict=True)):
                _check_tangents(nr, one, expected, found)


def _check_tangents(nr: int, one: Any, expected: Any, found: Any) -> None:
    if expected is None or found is None or FUNCTIONS["allclose"](expected, found):
        return
    raise GradcheckError(
        "Mismatch in tangent values for output with index: ",
        nr,
        " when input: ",
        one,
        " has an undefined tangent value. ",
        " Got: ",
        expected,
        " but expected: ",
        found,
    )


def batched_gradients(inputs: Sequence[Any], output: Any, nr: int) -> None:
    """Check that a batch of gradients returns the same as each separately."""
    wanted = [one for one in inputs if wants_grad(one)]

    def vjp(given: Any) -> list[Any]:
        found = grad(output, wanted, given, retain_graph=True, allow_unused=True)
        return [
            one.new_zeros(one.shape) if gradient is None else gradient
            for gradient, one in zip(found, wanted, strict=True)
        ]

    _compare_batch(vjp, output, BATCHED, lambda at: (nr, at))


def batched_tangents(func: Callable[..., Any], inputs: Sequence[Any]) -> None:
    """Check that a batch of tangents returns the same as each separately."""
    plain = [one.detach() if isinstance(one, Tensor) else one for one in inputs]
    for i, one in positions(inputs):
        if not is_inexact(one):
            continue

        def jvp(tangent: Any, place: int = i) -> list[Any]:
            with forward_ad.dual_level():
                duals = list(plain)
                duals[place] = forward_ad.make_dual(plain[place], tangent)
                made = as_tuple(func(*duals))
                parts = [forward_ad.unpack_dual(o) for o in made if o is not None]
                return [p.new_zeros(p.shape) if t is None else t for p, t in parts]

        _compare_batch(jvp, one, BATCHED_FORWARD, lambda at: (at, at))


def _compare_batch(
    function: Callable[..., list[Any]],
    like: Any,
    text: str,
    places: Callable[[int], tuple[int, int]],
) -> None:
    """Compare a function's results for two random tensors, batched and one after another."""
    stack = FUNCTIONS["stack"]
    given = [FUNCTIONS["randn_like"](like) for _ in range(2)]
    expected = [stack(pair) for pair in zip(*map(function, given), strict=True)]
    try:
        found = one_by_one(function, [stack(given)], function.__name__)
    except RuntimeError as error:
        raise GradcheckError(
            f"While computing batched gradients, got: {error}\n\n{text}"
        ) from error
    for at, (one, other) in enumerate(zip(found, expected, strict=True)):
        if not FUNCTIONS["allclose"](one, other):
            raise GradcheckError(batched_differs(*places(at), one, other, text))
