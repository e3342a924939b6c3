"""What kernels share: half precision by way of float32, silence about NaN, the way to Numba."""

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
"""Whether NumPy does everything, and nothing is compiled: GRADSCOPE_PLAIN=1 asks for that."""


def pays_from(count: int) -> int:
    """The size from which on compiled kernels pay; no array has it if nothing is compiled."""
    return sys.maxsize if ALL_PLAIN else count


# From this many elements on a Numba kernel wins by more than its import will ever cost a long run.
LARGE: Final = pays_from(1 << 16)

# Where Numba is there anyway, so many elements of smaller arrays are worth reading a family's file.
MANY: Final = 1 << 20

# NaN and infinity are values like others here; NumPy need not warn when they arise.
quiet: Final = np.errstate(all="ignore")


_readers: list[Callable[[str], Any]] = []


def register(read: Callable[[str], Any]) -> None:
    """Let `read(name)` read files of compiled kernels; `fast/` says so of its own."""
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
    """A file of compiled kernels, read when the first array comes that is large enough for them."""

    def __init__(self, name: str, few: int) -> None:
        self._read, self._few = kernels_of(name), pays_from(few)
        self._module: Any = None
        self._seen = 0

    def wins(self, size: int) -> bool:
        """Whether so many elements are worth it; once the file is there, fewer are."""
        return size >= LARGE or (size >= self._few and self._module is not None)

    def wins_by_now(self, size: int) -> bool:
        """The same of kernels whose bits are those of NumPy: nobody notices when they begin.

        They are worth it, too, for smaller arrays that come again and again.
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
    """Give a function of one floating-point array the manners of a kernel.

    Half precision is computed in float32 and rounded once; 0-dim arrays come back as arrays; NumPy
    does not warn.
    """

    @quiet
    @wraps(function)
    def kernel(x: Array, *args: Rest.args, **kwargs: Rest.kwargs) -> Array:
        if x.dtype in HALVES:
            return np.asarray(function(x.astype(np.float32), *args, **kwargs)).astype(x.dtype)
        return np.asarray(function(x, *args, **kwargs))

    return cast("Callable[Concatenate[Array, Rest], Array]", kernel)


def horner(x: Array, coefficients: tuple[float, ...]) -> Array:
    """Evaluate a polynomial whose coefficients are given from the highest power down."""
    first, *middle, last = _as_arrays(coefficients, x.dtype)
    result = np.asarray(x * first)
    for coefficient in middle:
        np.add(result, coefficient, result)
        np.multiply(result, x, result)
    return np.add(result, last, result)


@cache
def _as_arrays(coefficients: tuple[float, ...], dtype: np.dtype[Any]) -> tuple[Array, ...]:
    """Return the numbers as arrays, with which NumPy computes in half the time."""
    return tuple(np.array(coefficient, dtype) for coefficient in coefficients)
