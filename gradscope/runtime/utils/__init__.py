"""`torch.utils`: checkpoints, data loading and other helpers."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MODULES = (
    "_python_dispatch",
    "_pytree",
    "checkpoint",
    "data",
    "deterministic",
    "dlpack",
    "hooks",
    "model_zoo",
    "tensorboard",
)

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    from gradscope.runtime.core.errors.missing import no_module_attribute

    raise no_module_attribute("torch.utils", name, __dir__())


def __dir__() -> list[str]:
    return sorted(_MODULES)
