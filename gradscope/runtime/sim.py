"""Simulated devices: `torch.zeros(3, device="sim:0")`, and their settings.

Each has its own thread in the engine, its own ready queue and its own stream. So everything that an
engine does for several devices really happens and is visible in a trace, without a GPU.
"""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.devices import devices as _devices, streams as _streams
from gradscope.runtime.core.devices.streams import Latency, Settings


def set(
    *, latency: Latency | None = None, devices: int | None = None, ahead: int | None = None
) -> None:
    """Set the number of devices, and how long their kernels take.

    `latency` is in seconds, or a function of the device's index that returns the seconds of one
    kernel. `ahead` is how many kernels a thread may launch before it waits for the first of them;
    with 0, the default, a launch returns when its kernel is done.
    """
    if latency is not None:
        if not callable(latency) and not 0 <= latency < float("inf"):
            raise ValueError(f"a kernel takes a number of seconds from 0, not {latency}")
        Settings.latency = latency
    if devices is not None:
        if devices < 1:
            raise ValueError(f"there must be one device at least, not {devices}")
        Settings.devices = devices
    if ahead is not None:
        if ahead < 0:
            raise ValueError(f"a thread may be 0 or more kernels ahead, not {ahead}")
        Settings.ahead = ahead


def is_available() -> bool:
    return True


def device_count() -> int:
    return Settings.devices


def current_device() -> int:
    return _devices.get_default_device().index or 0


def synchronize(device: Any = None) -> None:
    """Wait until a device has finished all its kernels; by default, until all devices have."""
    if device is None:
        for stream in _streams.all():
            stream.synchronize()
        return
    number = _devices.check(device).index
    if number is not None:
        _streams.of(number).synchronize()


def kernels(device: Any) -> int:
    """The number of kernels that were launched on a device."""
    number = _devices.check(device).index
    return 0 if number is None else _streams.of(number).launched
