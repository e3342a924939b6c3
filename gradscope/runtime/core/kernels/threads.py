"""How many threads the products of matrices run in: those of the BLAS that NumPy brought.

Compiled kernels run in as many (fast/threads/spread.py), NumPy's other functions in the caller's.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

# OpenBLAS as NumPy's wheels carry it, as distributions do, and the others there are.
SETTERS = (
    "scipy_openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "openblas_set_num_threads",
    "MKL_Set_Num_Threads",
    "bli_thread_set_num_threads",
)


def blas_threads() -> int:
    """How many threads BLAS uses now; one for each core we may use if it does not say."""
    ask = _symbol(tuple(name.replace("set", "get").replace("Set", "Get_Max") for name in SETTERS))
    return max(1, int(ask())) if ask is not None else _cores()


def set_blas_threads(count: int) -> None:
    """Let BLAS use so many threads, if it can be told."""
    tell = _symbol(SETTERS)
    if tell is not None:
        tell(count)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _symbol(names: tuple[str, ...]) -> Callable[..., Any] | None:
    """The first of these functions among NumPy's own extension and the libraries it loaded."""
    import ctypes

    try:
        file = import_module("numpy._core._multiarray_umath").__file__
        library = ctypes.CDLL(file)
    except (ImportError, OSError):
        return None
    return next((getattr(library, name) for name in names if hasattr(library, name)), None)
