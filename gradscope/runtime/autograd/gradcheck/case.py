"""Data types of gradcheck: what is compared, the options, and the error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gradscope.runtime.core.tensors.tensor.tensor import Tensor


class GradcheckError(RuntimeError):
    """Raised by `gradcheck` and `gradgradcheck` when a derivative is wrong."""


@dataclass(frozen=True)
class Options:
    """Step size, tolerances, and further checks."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    check_undefined_grad: bool
    check_grad_dtypes: bool
    fast_mode: bool
    masked: bool | None


class Compared(NamedTuple):
    """An output, its position, and its position among those that are not integers."""

    place: int
    nr: int
    output: Any


@dataclass(frozen=True)
class Case:
    """One real function, the inputs where it is checked, and its outputs there.

    A complex function becomes two cases, of its real and its imaginary parts. `complex_indices` are
    their positions among the outputs, in forward mode among the inputs.
    """

    func: Callable[..., Any]
    inputs: tuple[Any, ...]
    returned: tuple[Any, ...]
    forward: bool = False
    complex_indices: Sequence[int] = field(default=())
    imaginary: bool = False

    @property
    def outputs(self) -> tuple[Any, ...]:
        """The outputs that require grad."""
        return tuple(output for output in self.returned if output.requires_grad)

    @property
    def compared(self) -> list[Compared]:
        """The outputs whose derivatives are compared. In forward mode they need no graph."""
        inexact = [(place, o) for place, o in enumerate(self.returned) if is_inexact(o)]
        numbered = [Compared(place, nr, o) for nr, (place, o) in enumerate(inexact)]
        return [c for c in numbered if self.forward or c.output.requires_grad]

    @property
    def wanted(self) -> tuple[Any, ...]:
        """The inputs that require grad."""
        return tuple(one for one in self.inputs if wants_grad(one))


def as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def wants_grad(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def positions(inputs: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """Position and tensor of each input that requires grad."""
    return ((i, one) for i, one in enumerate(inputs) if wants_grad(one))


def is_inexact(value: Any) -> bool:
    """Whether this is a tensor of floating point or complex numbers."""
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


def differentiable_outputs(returned: Any) -> tuple[Any, ...]:
    return tuple(output for output in as_tuple(returned) if output.requires_grad)
