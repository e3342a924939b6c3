"""A complex function as real functions: its real and its imaginary part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gradscope.runtime.autograd.gradcheck.case import Case, as_tuple, differentiable_outputs
from gradscope.runtime.core.tensors.tensor.tensor import Tensor


def backward_cases(
    func: Callable[..., Any], inputs: tuple[Any, ...], returned: tuple[Any, ...]
) -> Iterator[Case]:
    """The function itself if all outputs are real, otherwise its real and imaginary parts."""
    if not any(output.is_complex() for output in returned):
        yield Case(func, inputs, returned)
        return
    differentiable = enumerate(differentiable_outputs(returned))
    indices = [i for i, output in differentiable if output.is_complex()]
    for half in ("imag", "real"):
        part = _half_of_outputs(func, half)
        yield Case(
            part,
            inputs,
            part(*inputs),
            complex_indices=indices,
            imaginary=half == "imag",
        )


def _half_of_outputs(func: Callable[..., Any], half: str) -> Callable[..., tuple[Any, ...]]:
    def part(*inputs: Any) -> tuple[Any, ...]:
        return tuple(
            getattr(output, half) if output.is_complex() else output
            for output in as_tuple(func(*inputs))
        )

    return part


def forward_cases(
    func: Callable[..., Any], inputs: tuple[Any, ...], returned: tuple[Any, ...]
) -> Iterator[Case]:
    """The function itself if all inputs are real, otherwise of their real or imaginary parts.

    The other part keeps its given value.
    """
    indices = [i for i, one in enumerate(inputs) if isinstance(one, Tensor) and one.is_complex()]
    if not indices:
        yield Case(func, inputs, returned, forward=True)
        return
    for half in ("imag", "real"):
        parts = tuple(getattr(one, half) if i in indices else one for i, one in enumerate(inputs))
        whole = _whole_of_inputs(func, half, inputs, indices)
        yield Case(
            whole,
            parts,
            whole(*parts),
            forward=True,
            complex_indices=indices,
            imaginary=half == "imag",
        )


def _whole_of_inputs(
    func: Callable[..., Any], half: str, inputs: tuple[Any, ...], indices: list[int]
) -> Callable[..., tuple[Any, ...]]:
    def whole(*parts: Any) -> tuple[Any, ...]:
        given = list(parts)
        for i in indices:
            if half == "imag":
                given[i] = inputs[i].real + parts[i] * 1j
            else:
                given[i] = parts[i] + inputs[i].imag * 1j
        return as_tuple(func(*given))

    return whole
