"""The random state of a checkpoint's forward, restored for its recomputation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gradscope.runtime.core.tensors.default_generator import fork_rng, get_rng_state, set_rng_state


class DefaultDeviceType:
    """The device type whose random state is saved when no tensor tells the device."""

    _chosen: str | None = None

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        DefaultDeviceType._chosen = device

    @staticmethod
    def get_device_type() -> str:
        return DefaultDeviceType._chosen or "cpu"


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """Random states of the devices of these tensors, except for the CPU.

    Always empty: all devices here use the CPU's generator.
    """
    return [], []


def set_device_states(
    devices: Sequence[int], states: Sequence[Any], *, device_type: str | None = None
) -> None:
    """Restore what `get_device_states` returned."""


class RandomState:
    """The generator's state; or nothing, if it need not be preserved."""

    def __init__(self, *, preserve: bool) -> None:
        self._state = get_rng_state() if preserve else None

    @contextmanager
    def again(self) -> Iterator[None]:
        """Restore the state inside the block; afterwards the sequence continues undisturbed."""
        if self._state is None:
            yield
            return
        with fork_rng(devices=[]):
            set_rng_state(self._state)
            yield
