"""`torch.ops`: operators by namespace and name."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'torch.ops' has no attribute '{name}'")
    from gradscope.runtime.core.dispatch.operators.overloads import namespace

    return namespace(name)
