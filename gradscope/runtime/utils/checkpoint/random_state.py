"""The random numbers a checkpoint drew, to be drawn again when it runs again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gradscope.runtime.core.tensors.default_generator import fork_rng, get_rng_state, set_rng_state


class DefaultDeviceType:
    """The type of device whose random state is kept when no tensor says which."""

    _chosen: str | None = None

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        DefaultDeviceType._chosen = device

    @staticmethod
    def get_device_type() -> str:
        return DefaultDeviceType._chosen or "cpu"


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """The random states of the devices, other than the CPU, that these tensors are on.

    There are none: all devices here draw from the CPU's generator.
    """
    return [], []


def set_device_states(
    devices: Sequence[int], states: Sequence[Any], *, device_type: str | None = None
) -> None:
    """Put back what `get_device_states` gave."""


class RandomState:
    """Where the generator stood; or nothing, where a program draws no numbers or minds no other."""

    def __init__(self, *, preserve: bool) -> None:
        self._state = get_rng_state() if preserve else None

    @contextmanager
    def again(self) -> Iterator[None]:
        """Inside, the same numbers come once more; outside, the sequence goes on undisturbed."""
        if self._state is None:
            yield
            return
        with fork_rng(devices=[]):
            set_rng_state(self._state)
            yield
