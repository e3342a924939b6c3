"""The streams of simulated devices: kernels one after the other, each taking its time.

The arithmetic itself is done by the host when a kernel is launched. What is simulated is when it
is done: a kernel begins when the one before it has ended, and takes `latency` seconds. A launch
returns when no more than `ahead` kernels of its stream are still to be done; reading a value waits
for all.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from threading import Lock

Latency = float | Callable[[int], float]
"""Seconds a kernel takes, or who says so for a kernel of device N."""


class Settings:
    """What simulated devices there are; changed by `sim.set`."""

    devices = 4
    latency: Latency = 0.0
    ahead = 0


class Stream:
    """The kernels of one device, in order."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.launched = 0
        self._ends: deque[float] = deque()  # when each kernel that is not done will be
        self._lock = Lock()

    def launch(self) -> None:
        """Append a kernel; wait while too many are before it."""
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
        """Let later kernels begin only when the other stream has done what it has now."""
        with self._lock:
            if other._ends:
                self._ends.append(max(other._ends[-1], self._ends[-1] if self._ends else 0.0))

    def synchronize(self) -> None:
        """Wait until all kernels are done."""
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
        """In a forked child: nobody holds the lock, nothing is under way."""
        self._ends.clear()
        self._lock = Lock()


_streams: dict[int, Stream] = {}


class NoStream(Stream):
    """That of tensors without numbers: nothing is computed there."""

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
