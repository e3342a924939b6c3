"""Common parts of kernels: halves by way of float32, no warnings about NaN, use of Numba."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeAlias, cast

import ml_dtypes
import numpy as np

from gradscope.runtime.core.kernels.compile_notices import own_work

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Rest = ParamSpec("Rest")

BFLOAT16: Final = np.dtype(ml_dtypes.bfloat16)
HALVES: Final = frozenset({np.dtype(np.float16), BFLOAT16})

ALL_PLAIN: Final = os.environ.get("GRADSCOPE_PLAIN") == "1"
"""GRADSCOPE_PLAIN=1: NumPy computes everything, nothing is compiled."""


def pays_from(count: int) -> int:
    """The size from which compiled kernels pay off; infinite if nothing is compiled."""
    return sys.maxsize if ALL_PLAIN else count


# From this size on a Numba kernel saves more than its import will ever cost a long run.
LARGE: Final = pays_from(1 << 16)

# If Numba is already imported, this total of smaller arrays justifies loading a family's file.
MANY: Final = 1 << 20

# NaN and infinity are ordinary values here, so NumPy need not warn.
quiet: Final = np.errstate(all="ignore")


_readers: list[Callable[[str], Any]] = []


def register(read: Callable[[str], Any]) -> None:
    """Set the function that loads files of compiled kernels, which `fast/` provides."""
    _readers.append(read)


def kernels_of(family: str) -> Any:
    """A function that returns a file of compiled kernels.

    Its first call imports Numba, which takes half a second: call it late.
    """

    @cache
    def kernels() -> Any:
        with own_work("loads kernels"):
            return _readers[-1](family)

    return kernels


fast: Final = kernels_of("arrays.fast_elementwise")


class Family:
    """A file of compiled kernels, loaded with the first array that is large enough."""

    def __init__(self, name: str, few: int) -> None:
        self._read, self._few = kernels_of(name), pays_from(few)
        self._module: Any = None
        self._seen = 0

    def wins(self, size: int) -> bool:
        """Whether this number of elements is enough; once the file is loaded, fewer are."""
        return size >= LARGE or (size >= self._few and self._module is not None)

    def wins_by_now(self, size: int) -> bool:
        """The same for kernels with NumPy's bits: switching is not noticeable.

        Smaller arrays that come repeatedly are enough, too.
        """
        if self.wins(size):
            return True
        if size < self._few or "numba" not in sys.modules:
            return False
        self._seen += size
        return self._seen >= MANY

    @property
    def kernels(self) -> Any:
        if self._module is None:
            self._module = self._read()
        return self._module


def elementwise(
    function: Callable[Concatenate[Array, Rest], Any],
) -> Callable[Concatenate[Array, Rest], Array]:
    """Decorate a function of one floating-point array as a kernel.

    Half precision is computed in float32 and rounded once; 0-dim arrays stay arrays; NumPy does not
    warn.
    """

    @quiet
    @wraps(function)
    def kernel(x: Array, *args: Rest.args, **kwargs: Rest.kwargs) -> Array:
        if x.dtype in HALVES:
            return np.asarray(function(x.astype(np.float32), *args, **kwargs)).astype(x.dtype)
        return np.asarray(function(x, *args, **kwargs))

    return cast("Callable[Concatenate[Array, Rest], Array]", kernel)


def horner(x: Array, coefficients: tuple[float, ...]) -> Array:
    """Evaluate a polynomial with coefficients from the highest power down."""
    first, *middle, last = _as_arrays(coefficients, x.dtype)
    result = np.asarray(x * first)
    for coefficient in middle:
        np.add(result, coefficient, result)
        np.multiply(result, x, result)
    return np.add(result, last, result)


@cache
def _as_arrays(coefficients: tuple[float, ...], dtype: np.dtype[Any]) -> tuple[Array, ...]:
    """Return the numbers as arrays: NumPy computes with them in half the time."""
    return tuple(np.array(coefficient, dtype) for coefficient in coefficients)
