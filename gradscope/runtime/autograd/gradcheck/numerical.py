"""Numerical derivatives by central differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from gradscope.runtime.autograd.gradcheck.case import as_tuple, is_inexact, positions

NO_COMPLEX_OUTPUT = (
    "Expected output to be non-complex. {name} no longer supports functions that return complex "
    "outputs."
)


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    outputs: Sequence[Any] | None = None,
    target: Any = None,
    eps: float = 1e-3,
    *,
    forward: bool = False,
) -> list[tuple[Any, ...]]:
    """For each of `target` that requires grad, a matrix per output with a row per element.

    `target` need not be among the inputs: the memory of the tensors is changed in place.
    """
    outputs = as_tuple(func(*as_tuple(inputs))) if outputs is None else outputs
    if not forward and any(output.is_complex() for output in outputs):
        raise ValueError(NO_COMPLEX_OUTPUT.format(name="get_numerical_jacobian"))
    return [
        jacobian_of_one(func, i, inputs, outputs, eps, input=one, is_forward_ad=forward)
        for i, one in positions(as_tuple(inputs if target is None else target))
    ]


def jacobian_of_one(
    fn: Callable[..., Any],
    input_idx: int,
    inputs: Any,
    outputs: Sequence[Any],
    eps: float,
    input: Any = None,
    is_forward_ad: bool = False,
) -> tuple[Any, ...]:
    """The derivatives of all outputs by one input, element by element."""
    moved = inputs[input_idx] if input is None else input
    if not moved.requires_grad:
        raise AssertionError("Expected input to have requires_grad=True")
    kept = [i for i, output in enumerate(outputs) if is_inexact(output)]
    matrices = [
        outputs[i].new_zeros(
            (moved.numel(), outputs[i].numel()), dtype=moved.dtype if moved.is_complex() else None
        )
        for i in kept
    ]
    numbers = moved.data
    for row, index in enumerate(product(*map(range, moved.shape))):
        moves = Moves(fn, inputs, numbers[index], eps, f"on index {index} ")
        found = moves.derivatives(eps, eps, may_be_complex=is_forward_ad)
        for matrix, i in zip(matrices, kept, strict=True):
            matrix[row] = found[i]
    return tuple(matrices)


def along(
    func: Callable[..., Any], inputs: Any, moved: Any, direction: Any, eps: float, *, forward: bool
) -> list[Any]:
    """The derivatives of all outputs by one input along a direction.

    A complex input has two directions, one of the real and one of the imaginary part.
    """
    moves = Moves(func, inputs, moved.data, eps, "")
    both = direction if isinstance(direction, tuple) else (direction, direction)
    real, imaginary = (part.reshape(moved.shape) * eps for part in both)
    return moves.derivatives(real, imaginary, may_be_complex=forward)


class Moves:
    """Elements in memory that are changed to measure how a function reacts."""

    def __init__(
        self, func: Callable[..., Any], inputs: Any, numbers: Any, eps: float, place: str
    ) -> None:
        self.func, self.inputs, self.numbers = func, as_tuple(inputs), numbers
        self.eps, self.place = eps, place

    def derivatives(self, real: Any, imaginary: Any, *, may_be_complex: bool) -> list[Any]:
        """The change of each output per unit; for complex inputs the conjugate Wirtinger kind."""
        if not self.numbers.is_complex():
            found = self.slopes(real)
            if not may_be_complex:
                self._check_real(found)
            return list(found)
        by_real = self.slopes(real)
        by_imaginary = self.slopes(imaginary * 1j)
        self._check_real(by_real)
        return [a + b * 1j for a, b in zip(by_real, by_imaginary, strict=True)]

    def slopes(self, step: Any) -> tuple[Any, ...]:
        """Half the difference between the outputs one step after and one step before."""
        numbers = self.numbers
        here = numbers.clone()
        try:
            numbers.copy_(here - step)
            before = self._called()
            numbers.copy_(here + step)
            after = self._called()
        finally:
            numbers.copy_(here)
        return tuple(self._slope(a, b) for a, b in zip(before, after, strict=True))

    def _called(self) -> tuple[Any, ...]:
        return tuple(output.clone() for output in as_tuple(self.func(*self.inputs)))

    def _slope(self, before: Any, after: Any) -> Any:
        for what in ("shape", "dtype"):
            one, other = getattr(before, what), getattr(after, what)
            if one != other:
                raise AssertionError(
                    f"Expected `func` to return outputs with the same {what} when inputs are "
                    f"perturbed {self.place}by {self.eps}, but got: {what}s {one} and {other}."
                )
        return ((after - before) / (2 * self.eps)).detach().reshape(-1)

    def _check_real(self, found: Sequence[Any]) -> None:
        if any(slope.is_complex() for slope in found):
            raise AssertionError("Expected ds_dx to be real-valued, not complex.")
