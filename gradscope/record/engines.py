"""Which engines can be recorded, by the names that `--on` has for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradscope.errors import UsageError

if TYPE_CHECKING:
    from gradscope.record.source import Engine

NAMES = ("gradscope", "pytorch")


def named(name: str) -> Engine:
    """The engine of this name."""
    if name not in NAMES:
        raise UsageError(f"there is no engine '{name}'; there are {', '.join(NAMES)}")
    if name != "gradscope":
        raise UsageError(
            f"--on {name} is not there yet: recording PyTorch itself comes later; without "
            "it, `import torch` in the script is gradscope's own engine, which needs no PyTorch"
        )
    return default()


def default() -> Engine:
    """The engine that `record()` watches."""
    from gradscope.record.from_runtime.engine import Runtime

    return Runtime()
