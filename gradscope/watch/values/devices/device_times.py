"""Measures how long backwards take on their device, for one recording.

# Note [Two events]
Before and after a backward, an event is put into the current stream of the device: the engine lets
this stream wait for all others that the backward uses. The time between two events is read when the
device has passed both, whenever that is; nothing waits for it before the recording ends.
"""

from __future__ import annotations

from time import monotonic, sleep
from typing import Any, NamedTuple

import torch

from gradscope.errors import is_the_programs
from gradscope.watch.values.devices.pages import A_MOMENT, PATIENCE, backend

MOST = 1 << 12
"""Number of backwards whose times a device may owe; of further ones no times are measured."""


class DeviceMark(NamedTuple):
    """The begin of a backward."""

    device: Any
    began: Any
    before: Any  # the event at the end of the backward before it on this device, or None


class TookOnDevice(NamedTuple):
    """A backward and its times in nanoseconds."""

    task: Any
    device: Any
    took: int
    since: int | None


class DeviceTimes:
    """Marks the begins and ends of backwards, and hands out the times that have arrived."""

    def __init__(self) -> None:
        self._refused = {"cpu", "meta"}  # kinds of devices without events that have times
        self._last: dict[Any, Any] = {}  # the last event of each device
        self._owed: list[tuple[Any, DeviceMark, Any]] = []

    def begins(self, tensor: Any) -> DeviceMark | None:
        """A backward from this tensor is about to begin. None: it cannot be measured."""
        device = getattr(tensor, "device", None)
        if device is None or device.type in self._refused or len(self._owed) >= MOST:
            return None
        event = self._event(device)
        return None if event is None else DeviceMark(device, event, self._last.get(device))

    def ends(self, mark: DeviceMark, task: Any) -> None:
        """The backward ended; its task is handed out with its times."""
        event = self._event(mark.device)
        if event is not None:
            self._last[mark.device] = event
            self._owed.append((task, mark, event))

    def _event(self, device: Any) -> Any:
        """A new event in the current stream of a device; None: there is none, or not now."""
        there = backend(device)
        try:
            if there.is_capturing:
                return None
            if there.has_streams:
                event = there.module.Event(enable_timing=True)
                event.record(there.module.current_stream(device))
            else:
                event = torch.Event(device, enable_timing=True)
                event.record(torch.accelerator.current_stream(device))
        except (RuntimeError, TypeError, ValueError, AttributeError, AssertionError) as error:
            if is_the_programs(error):
                raise
            self._refused.add(device.type)
            return None
        return event

    def arrived(self, *, last: bool = False) -> list[TookOnDevice]:
        """The times of backwards that their devices have finished; `last`: wait for all a while."""
        found, owed, until = [], self._owed, monotonic() + PATIENCE
        while owed:
            task, mark, end = owed[0]
            if mark.device.type in self._refused:
                break
            if not self._passed(end):
                if not last or monotonic() > until:
                    break
                sleep(A_MOMENT)
                continue
            owed.pop(0)
            took = self._between(mark.began, end)
            since = None if mark.before is None else self._between(mark.before, mark.began)
            if took is not None:
                found.append(TookOnDevice(task, mark.device, took, since))
        return found

    def _passed(self, event: Any) -> bool:
        try:
            return bool(event.query())
        except RuntimeError:  # the device has failed
            return False

    def _between(self, one: Any, other: Any) -> int | None:
        try:
            milliseconds = float(one.elapsed_time(other))
        except RuntimeError:
            return None
        return max(round(milliseconds * 1e6), 0)
