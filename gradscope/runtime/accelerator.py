"""`torch.accelerator`: the fastest device besides the CPU. There is none here."""

from __future__ import annotations

from typing import Any, NoReturn

from gradscope.runtime.core.devices.devices import NO_ACCELERATOR
from gradscope.runtime.core.errors import missing


def is_available() -> bool:
    return False


def device_count() -> int:
    return 0


def current_accelerator(check_available: bool = False) -> None:
    return None


def _none(*args: Any, **kwargs: Any) -> NoReturn:
    raise RuntimeError(NO_ACCELERATOR)


current_device_index = current_device_idx = set_device_index = set_device_idx = _none
current_stream = set_stream = synchronize = _none


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.accelerator", name, list(globals()))
