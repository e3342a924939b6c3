"""`torch.mps`: GPUs of Apple's, of which there are none here."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.errors import missing


def is_available() -> bool:
    return False


def device_count() -> int:
    return 0


def manual_seed(seed: int) -> None:
    """Nothing is there to be seeded."""


def empty_cache() -> None:
    """Nothing is there to be emptied."""


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.mps", name, list(globals()))
