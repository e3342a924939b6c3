"""`torch.xpu`: Intel GPUs. None are available."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.errors import missing


def is_available() -> bool:
    return False


def device_count() -> int:
    return 0


def manual_seed(seed: int) -> None:
    """Do nothing: there is no such GPU."""


def empty_cache() -> None:
    """Do nothing: there is no such GPU."""


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.xpu", name, list(globals()))
