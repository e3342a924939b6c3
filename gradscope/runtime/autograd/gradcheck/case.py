"""What is checked, how closely, and what went wrong: the nouns of gradcheck."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gradscope.runtime.core.tensors.tensor.tensor import Tensor


class GradcheckError(RuntimeError):
    """What `gradcheck` and `gradgradcheck` raise: a derivative is not what it should be."""


@dataclass(frozen=True)
class Options:
    """How far inputs are moved, how close derivatives must be, what else is looked at."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    check_undefined_grad: bool
    check_grad_dtypes: bool
    fast_mode: bool
    masked: bool | None


class Compared(NamedTuple):
    """An output, its place among all, and its number among those that are no integers."""

    place: int
    nr: int
    output: Any


@dataclass(frozen=True)
class Case:
    """One function of real numbers, where it is looked at, and what it returned there.

    A function of complex numbers makes two cases: of its real and of its imaginary halves, whose
    positions among the outputs (in forward mode: the inputs) are `complex_indices`.
    """

    func: Callable[..., Any]
    inputs: tuple[Any, ...]
    returned: tuple[Any, ...]
    forward: bool = False
    complex_indices: Sequence[int] = field(default=())
    imaginary: bool = False

    @property
    def outputs(self) -> tuple[Any, ...]:
        """The outputs that have a gradient."""
        return tuple(output for output in self.returned if output.requires_grad)

    @property
    def compared(self) -> list[Compared]:
        """The outputs whose derivatives are compared; forward mode needs no graph behind them."""
        inexact = [(place, o) for place, o in enumerate(self.returned) if is_inexact(o)]
        numbered = [Compared(place, nr, o) for nr, (place, o) in enumerate(inexact)]
        return [c for c in numbered if self.forward or c.output.requires_grad]

    @property
    def wanted(self) -> tuple[Any, ...]:
        """The inputs that want a gradient."""
        return tuple(one for one in self.inputs if wants_grad(one))


def as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def wants_grad(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def positions(inputs: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """Place and tensor of each input that wants a gradient."""
    return ((i, one) for i, one in enumerate(inputs) if wants_grad(one))


def is_inexact(value: Any) -> bool:
    """Whether this is a tensor of real or complex numbers, not of integers or truth values."""
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


def differentiable_outputs(returned: Any) -> tuple[Any, ...]:
    return tuple(output for output in as_tuple(returned) if output.requires_grad)
