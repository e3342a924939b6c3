"""`torch._utils`: how an error in another process or thread reaches the one that waits for it."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any

from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.errors import missing


class KeyErrorMessage(str):
    """A text whose repr is the text itself: KeyError shows the `repr` of its argument."""

    __slots__ = ()

    def __repr__(self) -> str:
        return self


class ExceptionWrapper:
    """An exception as text, with its class. It can be sent to another process and raised there."""

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        found = sys.exc_info() if exc_info is None else exc_info
        self.exc_type: Any = found[0]
        self.exc_msg = "".join(traceback.format_exception(*found))
        self.where = where

    def reraise(self) -> None:
        """Raise an exception of the same class, whose message says where it came from."""
        message = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            raise KeyError(KeyErrorMessage(message))
        if getattr(self.exc_type, "message", None):
            raise self.exc_type(message=message)
        try:
            error = self.exc_type(message)
        except Exception:
            raise RuntimeError(message) from None  # a class with another constructor
        raise error


def cpu_count() -> int | None:
    """The number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _element_size(dtype: Any) -> int:
    """The size of an element in bytes."""
    if not isinstance(dtype, dtypes.dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    return int(dtype.itemsize)


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch._utils", name, list(globals()))
