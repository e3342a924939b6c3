"""Compares numerical and analytical derivatives: element by element, or weighted sums (fast)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gradscope.runtime.autograd.gradcheck import analytical, numerical
from gradscope.runtime.autograd.gradcheck.case import (
    Case,
    Compared,
    GradcheckError,
    Options,
    positions,
)
from gradscope.runtime.autograd.gradcheck.words import NOT_ZERO, in_slow_mode, not_close
from gradscope.runtime.core.dtypes.dtypes import promote_types
from gradscope.runtime.core.rows.offered import FUNCTIONS
from gradscope.runtime.core.state.generator import Generator


def slow(case: Case, options: Options) -> None:
    """Compare full Jacobians."""
    by_input = numerical.jacobian(
        case.func, case.inputs, case.returned, eps=options.eps, forward=case.forward
    )
    if not case.outputs:
        if any((matrix != 0).any() for matrices in by_input for matrix in matrices):
            raise GradcheckError(NOT_ZERO)
        return
    pushed = analytical.forward(case, options) if case.forward else None
    differentiable = [c for c in case.compared if c.output.requires_grad]
    for i, (_, nr, output) in enumerate(differentiable):
        if pushed is None:
            found = analytical.backward_twice(case, output, options)
        else:
            found = tuple(matrices[nr] for matrices in pushed)
        for j, (matrix, matrices) in enumerate(zip(found, by_input, strict=True)):
            if not _close(matrix, matrices[nr], options.rtol, options.atol):
                raise GradcheckError(not_close(matrix, matrices[nr], i, j, case))


def fast(case: Case, options: Options) -> None:
    """Compare a weighted sum of each Jacobian, with two calls and one backward.

    Inputs change along random directions. Backward starts from a random vector per output.
    """
    directions, vectors = random_vectors(case)
    slopes = [
        numerical.along(case.func, case.inputs, one, u, options.eps, forward=case.forward)
        for (_, one), u in zip(positions(case.inputs), directions, strict=True)
    ]
    if case.forward:
        found = analytical.forward(case, options, directions)
    else:
        if not case.outputs:
            _check_constant(slopes, options)
        found = _weighted_backward(case, options, directions, vectors)
    for i, (of_input, u) in enumerate(zip(slopes, directions, strict=True)):
        for j, compared in enumerate(case.compared):
            v = None if case.forward else vectors[j]
            slope = of_input[compared.place]
            known = slope if v is None else (v * slope).sum()
            atol = options.atol * _total(u) * (1.0 if v is None else float(v.sum()))
            if not _close(found[i][j], known, options.rtol, atol):
                text = not_close(found[i][j], known, j, i, case)
                raise GradcheckError(text + _slow_words(case, options, i, compared))


def _check_constant(slopes: Sequence[Sequence[Any]], options: Options) -> None:
    for of_input in slopes:
        for slope in of_input:
            if slope.numel() and slope.abs().max() > options.nondet_tol:
                raise GradcheckError(NOT_ZERO)


def _weighted_backward(
    case: Case, options: Options, directions: Sequence[Any], vectors: Sequence[Any]
) -> list[tuple[Any, ...]]:
    """For each input one number per output: the Jacobian between a vector and a direction."""
    rows = [
        analytical.backward_twice(case, output, options, v)
        for output, v in zip(case.outputs, vectors, strict=True)
    ]
    return [tuple(_dot(row[i].reshape(-1), u) for row in rows) for i, u in enumerate(directions)]


def _dot(gradient: Any, direction: Any) -> Any:
    if not gradient.is_complex():
        return gradient.dot(direction)
    return gradient.real.dot(direction[0]) + 1j * gradient.imag.dot(direction[1])


def random_vectors(case: Case) -> tuple[list[Any], list[Any]]:
    """A direction for each input (two for a complex one) and a vector for each output.

    They come from a separate generator with a fixed seed, so the user's random state is unchanged.
    """
    generator = Generator()
    directions = []
    for one in case.wanted:
        real = _unit_vector(one, generator)
        both = one.is_complex()
        directions.append((real, _unit_vector(one, generator)) if both else real)
    if case.forward:
        return directions, []
    return directions, [_unit_vector(output, generator) for output in case.outputs]


def _unit_vector(like: Any, generator: Any) -> Any:
    made = FUNCTIONS["rand"](like.numel(), generator=generator)
    dtype = like.real.dtype if like.is_complex() else like.dtype
    made = made.to(device=like.device, dtype=dtype)
    made /= made.norm()
    return made


def _total(direction: Any) -> float:
    if isinstance(direction, tuple):
        return float(direction[0].sum()) + float(direction[1].sum())
    return float(direction.sum())


def _close(found: Any, known: Any, rtol: float, atol: float) -> bool:
    dtype = promote_types(found.dtype, known.dtype)
    known = known.to(device=found.device, dtype=dtype)
    return bool(FUNCTIONS["allclose"](found.to(dtype), known, rtol, atol))


def _slow_words(case: Case, options: Options, i: int, compared: Compared) -> str:
    """The full matrices of one input and output, for the error message."""
    known = numerical.jacobian(
        case.func, case.inputs, case.returned, eps=options.eps, forward=case.forward
    )[i][compared.nr]
    if case.forward:
        found = analytical.forward(case, options)[i][compared.nr]
    else:
        lenient = replace(options, nondet_tol=float("inf"), check_grad_dtypes=False)
        found = analytical.backward_twice(case, compared.output, lenient)[i]
    known = known.to(found.device)
    return in_slow_mode(found, known, close=_close(found, known, options.rtol, options.atol))
