"""A small stand-in for torchvision, for scripts on machines without it.

Residual networks without pretrained weights, common transforms of images, and MNIST from existing
files. Nothing is downloaded.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gradscope.runtime.core.errors.missing import no_module_attribute

PARTS = ("datasets", "models", "transforms")


def __getattr__(name: str) -> Any:
    if name in PARTS:
        return import_module(f"{__name__}.{name}")
    raise no_module_attribute("torchvision", name, list(PARTS))


def __dir__() -> list[str]:
    return sorted(PARTS)
