"""Streams of simulated devices: kernels run one after another, each with a latency.

The arithmetic is done by the host when a kernel is launched. Only its timing is simulated: a kernel
starts when the previous one has ended, and takes `latency` seconds. A launch returns once at most
`ahead` kernels of its stream are pending. Reading a value waits for all.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from threading import Lock

Latency = float | Callable[[int], float]
"""Seconds per kernel, or a function of the device index that returns them."""


class Settings:
    """Number and timing of simulated devices; changed by `sim.set`."""

    devices = 4
    latency: Latency = 0.0
    ahead = 0


class Stream:
    """The kernels of one device, in order."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.launched = 0
        self._ends: deque[float] = deque()  # end times of pending kernels
        self._lock = Lock()

    def launch(self) -> None:
        """Append a kernel. Waits while too many are pending."""
        latency = Settings.latency
        seconds = latency(self.number) if callable(latency) else latency
        self.launched += 1
        if seconds <= 0 and not self._ends:
            return
        with self._lock:
            now = time.perf_counter()
            last = max(now, self._ends[-1]) if self._ends else now
            self._ends.append(last + max(seconds, 0.0))
            ahead = Settings.ahead
            until = self._ends[-1 - ahead] if len(self._ends) > ahead else 0.0
        self._sleep(until)

    def wait_for(self, other: Stream) -> None:
        """Let later kernels start only after the present ones of the other stream."""
        with self._lock:
            if other._ends:
                self._ends.append(max(other._ends[-1], self._ends[-1] if self._ends else 0.0))

    def synchronize(self) -> None:
        """Wait for all kernels."""
        if self._ends:
            with self._lock:
                until = self._ends[-1] if self._ends else 0.0
            self._sleep(until)

    def _sleep(self, until: float) -> None:
        left = until - time.perf_counter()
        if left > 0:
            time.sleep(left)
        with self._lock:
            now = time.perf_counter()
            while self._ends and self._ends[0] <= now:
                self._ends.popleft()

    def renew(self) -> None:
        """Reset the lock and the pending kernels in a forked child."""
        self._ends.clear()
        self._lock = Lock()


_streams: dict[int, Stream] = {}


class NoStream(Stream):
    """The stream of tensors without data: nothing is computed."""

    def launch(self) -> None:
        pass

    def wait_for(self, other: Stream) -> None:
        pass

    def synchronize(self) -> None:
        pass


NOWHERE = NoStream(-1)


def of(number: int) -> Stream:
    """The stream of device `number`."""
    found = _streams.get(number)
    if found is None or number >= Settings.devices:
        if not 0 <= number < Settings.devices:
            raise RuntimeError(
                f"invalid device ordinal: sim:{number}\nThere are {Settings.devices} simulated "
                f"devices, sim:0 to sim:{Settings.devices - 1}; sim.set(devices=…) makes more."
            )
        found = _streams.setdefault(number, Stream(number))
    return found


def all() -> list[Stream]:
    """The streams that have been used."""
    return list(_streams.values())
