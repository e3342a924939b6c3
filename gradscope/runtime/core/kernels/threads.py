"""The number of threads of matrix products: that of NumPy's BLAS.

Compiled kernels use the same number (fast/threads/spread.py), other NumPy functions one thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

# OpenBLAS in NumPy's wheels, in distributions, and other libraries.
SETTERS = (
    "scipy_openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "openblas_set_num_threads",
    "MKL_Set_Num_Threads",
    "bli_thread_set_num_threads",
)


def blas_threads() -> int:
    """BLAS's present number of threads; the number of usable cores if it is unknown."""
    ask = _symbol(tuple(name.replace("set", "get").replace("Set", "Get_Max") for name in SETTERS))
    return max(1, int(ask())) if ask is not None else _cores()


def set_blas_threads(count: int) -> None:
    """Set BLAS's number of threads, if possible."""
    tell = _symbol(SETTERS)
    if tell is not None:
        tell(count)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _symbol(names: tuple[str, ...]) -> Callable[..., Any] | None:
    """The first of these functions in NumPy's extension or the libraries it loaded."""
    import ctypes

    try:
        file = import_module("numpy._core._multiarray_umath").__file__
        library = ctypes.CDLL(file)
    except (ImportError, OSError):
        return None
    return next((getattr(library, name) for name in names if hasattr(library, name)), None)
