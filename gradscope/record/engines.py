"""Which engines can be recorded, by the name `--on` has for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradscope.record.source import Engine


def engine() -> Engine:
    """The engine that `record()` watches."""
    from gradscope.record.from_runtime.engine import Runtime

    return Runtime()
