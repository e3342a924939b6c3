"""What only makes programs faster: compiled kernels and their threads.

Nothing that computes imports this room. It is imported once, by `gradscope.runtime`, and says where
its kernels are; a file of them is read, and Numba with it, when the first array comes that is large
enough. With GRADSCOPE_PLAIN=1 it is not there.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gradscope.runtime.core.kernels.support import register


def _read(name: str) -> Any:
    return import_module(f"{__name__}.{name}")


register(_read)
