"""`torch.autograd.profiler`: the old name of `torch.profiler`."""

from __future__ import annotations

from typing import Any

from gradscope.runtime import profiler
from gradscope.runtime.core.errors import missing
from gradscope.runtime.profiler import profile, record_function

__all__ = [
    "emit_nvtx",
    "profile",
    "record_function",
]

emit_nvtx = profiler._refuse


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.autograd.profiler", name, list(globals()))
