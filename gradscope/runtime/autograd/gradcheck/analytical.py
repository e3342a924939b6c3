"""Analytical derivatives by autograd: backward and forward, full or along a direction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

from gradscope.runtime.autograd import forward_ad
from gradscope.runtime.autograd.gradcheck.case import (
    Case,
    GradcheckError,
    Options,
    as_tuple,
    is_inexact,
    wants_grad,
)
from gradscope.runtime.autograd.gradcheck.words import NOT_REENTRANT
from gradscope.runtime.core.autograd.engine.backward import grad

Gradients = list[list[Any]]
"""Gradients (or None), one list per input."""


def backward_twice(
    case: Case, output: Any, options: Options, vector: Any = None
) -> tuple[Any, ...]:
    """For each input a matrix with a column per element of the output, or a vector for `vector`.

    Everything is computed twice: a backward that is not reproducible is refused.
    """
    found, types_fit, sizes_fit = stacked(case.wanted, gradients(case.wanted, output, vector))
    again, _, _ = stacked(case.wanted, gradients(case.wanted, output, vector))
    if options.check_grad_dtypes and not types_fit:
        raise GradcheckError("Gradient has dtype mismatch")
    if not sizes_fit:
        raise GradcheckError("Analytical gradient has incorrect size")
    if not equal(found, again, options.nondet_tol):
        raise GradcheckError(NOT_REENTRANT.format(tolerance=options.nondet_tol))
    return found


def gradients(wanted: Sequence[Any], output: Any, vector: Any) -> Gradients:
    """The gradients of the inputs for each element of the output, or for `vector`."""

    def vjp(given: Any) -> list[Any]:
        found = grad(output, wanted, given, retain_graph=True, allow_unused=True)
        return [None if gradient is None else gradient.clone() for gradient in found]

    if vector is not None:
        return [[gradient] for gradient in vjp(vector.reshape(output.shape))]
    with_one = output.new_zeros(output.shape)
    flat = with_one.view(-1)
    rows = []
    for j in range(flat.numel()):
        flat.zero_()
        flat[j] = 1.0
        rows.append(vjp(with_one))
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in wanted]


def stacked(wanted: Sequence[Any], found: Gradients) -> tuple[tuple[Any, ...], bool, bool]:
    """One matrix per input, and whether all gradients had its dtype, and its size."""
    types_fit = sizes_fit = True
    matrices = []
    for one, of_one in zip(wanted, found, strict=True):
        matrix = one.new_zeros((one.numel(), len(of_one)))
        for j, gradient in enumerate(of_one):
            if gradient is None:
                continue
            if gradient.shape != one.shape:
                sizes_fit = False
            elif gradient.dtype != one.dtype:
                types_fit = False
            if gradient.numel() != one.numel():
                raise AssertionError(
                    f"Expected out_jacobian column to have {gradient.numel()} elements, but got "
                    f"{one.numel()}"
                )
            matrix[:, j] = gradient.reshape(-1)
        matrices.append(matrix)
    return tuple(matrices), types_fit, sizes_fit


def equal(found: Sequence[Any], again: Sequence[Any], tolerance: float) -> bool:
    """Whether all values of two lists of matrices are within a tolerance."""
    return not any(
        one.numel() and (one - other).abs().max() > tolerance
        for one, other in zip(found, again, strict=True)
    )


def forward(
    case: Case, options: Options, directions: Sequence[Any] | None = None
) -> list[tuple[Any, ...]]:
    """For each input a matrix per output, a row per element; for directions one vector each."""
    if any(one.is_complex() for one in case.wanted):
        raise ValueError(
            "Expected inputs to be non-complex for _get_analytical_jacobian_forward_ad."
        )
    with forward_ad.dual_level():
        duals, tangents = _duals(case.inputs)
        if directions is None:
            return [
                _all_rows(case, options, duals, tangent, one.numel())
                for tangent, one in zip(tangents, case.wanted, strict=True)
            ]
        found = []
        for tangent, direction in zip(tangents, directions, strict=True):
            tangent.copy_(direction.view_as(tangent))
            found.append(tuple(pushed.clone() for pushed in _pushed(case.func, duals, options)))
            tangent.zero_()
        return found


def _duals(inputs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The inputs with zero tangents, and these tangents, which are overwritten."""
    duals = [
        forward_ad.make_dual(one.detach(), one.new_zeros(one.shape)) if wants_grad(one) else one
        for one in inputs
    ]
    pairs = zip(duals, inputs, strict=True)
    return duals, [forward_ad.unpack_dual(dual)[1] for dual, one in pairs if wants_grad(one)]


def _all_rows(
    case: Case, options: Options, duals: Sequence[Any], tangent: Any, count: int
) -> tuple[Any, ...]:
    outputs = [output for output in case.returned if is_inexact(output)]
    matrices = [output.new_zeros((count, output.numel())) for output in outputs]
    for row, index in enumerate(product(*map(range, tangent.shape))):
        tangent[index] = 1.0
        for matrix, pushed in zip(matrices, _pushed(case.func, duals, options), strict=True):
            matrix[row] = pushed
        tangent[index] = 0.0
    return tuple(matrices)


def _pushed(func: Callable[..., Any], duals: Sequence[Any], options: Options) -> Iterator[Any]:
    """The tangents of the outputs as vectors, zeros for missing ones."""
    for output in filter(is_inexact, as_tuple(func(*duals))):
        primal, tangent = forward_ad.unpack_dual(output)
        if tangent is None:
            yield primal.new_zeros(primal.numel())
            continue
        if options.check_grad_dtypes and primal.is_complex() != tangent.is_complex():
            raise GradcheckError("Forward AD gradient has dtype mismatch.")
        yield tangent.detach().reshape(-1)
