"""The autocast that a checkpointed call ran in, for when it runs again."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.amp.autocast_mode import (
    autocast,
    get_autocast_dtype,
    is_autocast_cache_enabled,
    is_autocast_enabled,
)


class AutocastState:
    """Whether, and to what, operations cast on the CPU when this was made."""

    __slots__ = ("caches", "dtype", "enabled")

    def __init__(self) -> None:
        self.enabled = is_autocast_enabled("cpu")
        self.dtype = get_autocast_dtype("cpu")
        self.caches = is_autocast_cache_enabled()

    def again(self) -> Any:
        """Inside, they cast as they did then."""
        return autocast("cpu", self.dtype, self.enabled, self.caches)
