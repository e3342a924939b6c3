"""Which engines can be recorded, by the names that `--on` has for them."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

from gradscope.errors import UsageError

if TYPE_CHECKING:
    from gradscope.record.source import Engine

AUTO, TORCH, GRADSCOPE = "auto", "torch", "gradscope"
NAMES = (AUTO, TORCH, GRADSCOPE)


def named(name: str) -> Engine:
    """The engine of this name, which a script's `import torch` gives."""
    if name not in NAMES:
        raise UsageError(f"there is no engine '{name}'; there are {', '.join(NAMES)}")
    if name == TORCH and not pytorch_is_installed():
        raise UsageError(
            "--on torch records real PyTorch, which is not installed here; with --on gradscope, "
            "`import torch` in the script is gradscope's own engine, which needs no PyTorch"
        )
    return _pytorch() if name == TORCH or (name == AUTO and pytorch_is_installed()) else _runtime()


def imported(name: str) -> Engine:
    """The engine of this name, for a program that runs already.

    `auto` is PyTorch where the program has imported it, unless it has imported the runtime, too.
    """
    if name != AUTO:
        return named(name)
    torch = sys.modules.get("torch")
    is_pytorch = torch is not None and not torch.__name__.startswith("gradscope.")
    return _pytorch() if is_pytorch and "gradscope.runtime" not in sys.modules else _runtime()


def pytorch_is_installed() -> bool:
    """Whether a program's `import torch` would find PyTorch; it is not imported."""
    return PathFinder.find_spec("torch") is not None


def _runtime() -> Engine:
    from gradscope.record.from_runtime.engine import Runtime

    return Runtime()


def _pytorch() -> Engine:
    from gradscope.record.from_pytorch.engine import PyTorch

    return PyTorch()
