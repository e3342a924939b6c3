"""The engines that can be recorded, by their names in `--on`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gradscope.errors import UsageError
from gradscope.record.from_pytorch import installed

if TYPE_CHECKING:
    from gradscope.record.source import WatchableEngine

AUTO, TORCH, GRADSCOPE = "auto", "torch", "gradscope"
NAMES = (AUTO, TORCH, GRADSCOPE)


def named(name: str) -> WatchableEngine:
    """The engine of this name, which `import torch` in a script returns."""
    if name not in NAMES:
        raise UsageError(f"unknown engine '{name}'; choose {', '.join(NAMES)}")
    if name == TORCH and installed.folder() is None:
        raise UsageError(
            "--on torch needs PyTorch, which is not installed here; --on gradscope runs the script "
            "on gradscope's own engine, which needs no PyTorch"
        )
    return _runtime() if is_own(name) else _pytorch()


def is_own(name: str) -> bool:
    """Whether this name means gradscope's own engine."""
    return name == GRADSCOPE or installed.folder() is None


def choice(name: str) -> str:
    """The engine that `auto` chose, in words; "" if the engine was named."""
    if name != AUTO:
        return ""
    if installed.folder() is None:
        return "PyTorch is not installed here: recording the script on gradscope's own engine"
    found = f"PyTorch {installed.version()}".rstrip()
    return f"recording {found}"


def imported(name: str) -> WatchableEngine:
    """The engine of this name, for a program that is already running.

    `auto` is PyTorch if the program has imported it and has not imported gradscope's runtime.
    """
    if name != AUTO:
        return named(name)
    torch = sys.modules.get("torch")
    is_pytorch = torch is not None and not torch.__name__.startswith("gradscope.")
    return _pytorch() if is_pytorch and "gradscope.runtime" not in sys.modules else _runtime()


def _runtime() -> WatchableEngine:
    from gradscope.record.from_runtime.runtime_engine import Runtime

    return Runtime()


def _pytorch() -> WatchableEngine:
    from gradscope.record.from_pytorch.pytorch_engine import PyTorch

    return PyTorch()
