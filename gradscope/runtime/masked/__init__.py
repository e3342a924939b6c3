"""`torch.masked`: reductions and similar functions that ignore elements where a mask is False."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.errors import missing
from gradscope.runtime.masked import _ops
from gradscope.runtime.masked._ops import *  # noqa: F403 -- every function there is

__all__ = [name for name in _ops.__all__ if not name.startswith("_")]


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.masked", name, list(globals()))
