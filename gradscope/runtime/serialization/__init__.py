"""`torch.save` and `torch.load`, in PyTorch's file format: each library reads both files."""

from __future__ import annotations

from gradscope.runtime.serialization.loading import load
from gradscope.runtime.serialization.safe_globals import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)
from gradscope.runtime.serialization.saving import save

__all__ = [
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "load",
    "safe_globals",
    "save",
]
