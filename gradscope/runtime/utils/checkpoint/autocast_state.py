"""The autocast state of a checkpointed call, for its recomputation."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.amp.autocast_mode import (
    autocast,
    get_autocast_dtype,
    is_autocast_cache_enabled,
    is_autocast_enabled,
)


class AutocastState:
    """Whether autocast was on for the CPU, and its dtype, when this object was created."""

    __slots__ = ("caches", "dtype", "enabled")

    def __init__(self) -> None:
        self.enabled = is_autocast_enabled("cpu")
        self.dtype = get_autocast_dtype("cpu")
        self.caches = is_autocast_cache_enabled()

    def again(self) -> Any:
        """Restore that autocast state inside the block."""
        return autocast("cpu", self.dtype, self.enabled, self.caches)
