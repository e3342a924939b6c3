"""`torch.utils.deterministic`: whether uninitialized memory is filled."""

from __future__ import annotations

import sys
from types import ModuleType

from gradscope.runtime.core.state import settings


class _Deterministic(ModuleType):
    """The module's type, which checks the value of its one switch."""

    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether `empty` fills its tensor while deterministic algorithms are on."""
        return settings.fills_memory()

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(f"expected mode to be a bool, but got {type(mode)}")
        settings.fill_memory(mode)


sys.modules[__name__].__class__ = _Deterministic
