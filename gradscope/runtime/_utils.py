"""`torch._utils`: how an error of another process or thread is carried to who waits for it."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any

from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.errors import missing


class KeyErrorMessage(str):
    """A text that is shown as it is: KeyError shows the `repr` of what it is given."""

    __slots__ = ()

    def __repr__(self) -> str:
        return self


class ExceptionWrapper:
    """An exception as text, with its class: it can be sent, and raised again elsewhere."""

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        found = sys.exc_info() if exc_info is None else exc_info
        self.exc_type: Any = found[0]
        self.exc_msg = "".join(traceback.format_exception(*found))
        self.where = where

    def reraise(self) -> None:
        """Raise one of the same class, which says where it came from."""
        message = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            raise KeyError(KeyErrorMessage(message))
        if getattr(self.exc_type, "message", None):
            raise self.exc_type(message=message)
        try:
            error = self.exc_type(message)
        except Exception:
            raise RuntimeError(message) from None  # a class that takes something else
        raise error


def cpu_count() -> int | None:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _element_size(dtype: Any) -> int:
    """How many bytes an element takes."""
    if not isinstance(dtype, dtypes.dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    return int(dtype.itemsize)


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch._utils", name, list(globals()))
