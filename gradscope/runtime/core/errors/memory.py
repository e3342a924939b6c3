"""PyTorch's errors for memory that cannot be allocated."""

from __future__ import annotations

import math
import re
from types import TracebackType
from typing import Any

from gradscope.runtime.core.state.frames import is_inside

_SAYS = (
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you "
    "tried to allocate {bytes} bytes. Error code 12 (Cannot allocate memory)"
)


def out_of_memory(error: BaseException) -> RuntimeError | None:
    """The error to raise instead of NumPy's, if it is about memory; else None."""
    shape, dtype = getattr(error, "shape", None), getattr(error, "dtype", None)
    if isinstance(error, MemoryError) and shape is not None and dtype is not None:
        return RuntimeError(_SAYS.format(bytes=math.prod(shape) * dtype.itemsize))
    return None


def of_a_backward(error: BaseException) -> BaseException:
    """The error of a failed backward: PyTorch's if a formula of the runtime ran out of memory.

    An error that the user's own code raises, in a hook or a Function, is unchanged.
    """
    found = out_of_memory(error)
    if found is None or not _raised_inside(error.__traceback__):
        return error
    return found.with_traceback(error.__traceback__)


def _raised_inside(step: TracebackType | None) -> bool:
    """Whether the runtime called NumPy."""
    last = None
    while step is not None:
        if not step.tb_frame.f_globals.get("__name__", "").startswith("numpy"):
            last = step.tb_frame
        step = step.tb_next
    return last is not None and is_inside(last)


def allocated(make: Any, shape: Any, *others: Any) -> Any:
    """The array that NumPy makes of this shape; PyTorch's error if it is too large."""
    try:
        return make(shape, *others)
    except MemoryError as error:
        raise out_of_memory(error) or error from None
    except ValueError as error:
        if re.search("too big|too large|[Mm]aximum", str(error)) is None:
            raise
        overflows = f"Storage size calculation overflowed with sizes={list(shape)}"
        raise RuntimeError(overflows) from None
