"""`torch.cpu`: the processor, whose work is always done."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gradscope.runtime.core.errors import missing


def is_available() -> bool:
    return True


def device_count() -> int:
    return 1


def current_device() -> str:
    return "cpu"


def set_device(device: Any) -> None:
    """Do nothing: there is one device."""


def synchronize(device: Any = None) -> None:
    """Do nothing: the CPU's work is done."""


def __getattr__(name: str) -> Any:
    if name == "amp":
        return import_module(f"{__name__}.amp")
    raise missing.no_module_attribute("torch.cpu", name, [*globals(), "amp"])
