"""Code that only makes programs faster: compiled kernels, and captured steps.

No computing code imports this package. `gradscope.runtime` imports it once, and it registers where
its kernels are. A file of kernels, and Numba with it, is loaded with the first array that is large
enough. With GRADSCOPE_PLAIN=1 none is loaded, and captured steps run uncaptured.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gradscope.runtime.core.kernels.support import ALL_PLAIN, register
from gradscope.runtime.core.state import upward


def _read(name: str) -> Any:
    return import_module(f"{__name__}.{name}")


def _replayed(model: Any) -> Any:
    if hasattr(model, "named_parameters"):
        from gradscope.runtime.fast.capture.models.optimized_module import OptimizedModule

        return model if isinstance(model, OptimizedModule) else OptimizedModule(model)
    from gradscope.runtime.fast.capture.captured import capture

    return capture(model)


def _set_kernel_threads(count: int | None) -> None:
    from gradscope.runtime.fast.threads.spread import set_kernel_threads

    set_kernel_threads(count)


if not ALL_PLAIN:
    register(_read)
upward.replayed = _replayed
upward.set_kernel_threads = _set_kernel_threads
