"""Integrations with pytest, training loops and notebooks, imported only when used.

from gradscope.callbacks import GradscopeCallback
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradscope.callbacks.training import GradscopeCallback

__all__ = ["GradscopeCallback"]


def __getattr__(name: str) -> Any:
    if name == "GradscopeCallback":
        from gradscope.callbacks.training import GradscopeCallback

        return GradscopeCallback
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
