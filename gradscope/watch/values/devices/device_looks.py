"""Measures tensors on devices, for one recording."""

from __future__ import annotations

import ctypes
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from gradscope.errors import is_the_programs
from gradscope.watch.unseen import library, unseen
from gradscope.watch.values.devices.pages import PageKey, Pages, backend
from gradscope.watch.values.devices.reductions import (
    NUMBERS,
    WORKING,
    Ints,
    joined,
    once,
    parts,
    put_numbers,
)
from gradscope.watch.values.reachable import is_plain_on_device
from gradscope.watch.values.statistics import StatisticsColumns

if TYPE_CHECKING:
    from gradscope.watch.values.devices.asked import AskedByMachineCode

MOST_KEPT = 1 << 16
"""Number of looks whose results are kept: several rows may refer to one."""

REFUSED = "values of tensors on {}, which does not have the operations for it: {}"
_SILENT: Any = ("ignore", None, Warning, None, 0)
_NoMemory = getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)  # new in 2.5
_record, _set_grad = torch.autograd._enable_record_function, torch._C._set_grad_enabled
_transforms = torch._C._functorch.peek_interpreter_stack


class DeviceLook(NamedTuple):
    """A measured tensor: the numbers of its rows, its size, and how often each element occurs."""

    first: int
    many: int
    size: int
    times: int


class _Here(threading.local):
    measures = False


class DeviceLooks:
    """Measures tensors on their devices. See the notes in reductions.py and pages.py."""

    asked: AskedByMachineCode | None = None

    def __init__(self) -> None:
        self._refused: dict[str, str] = {}  # kinds of devices that are not looked at, and why
        self._tried: set[str] = set()  # kinds of devices whose operations are there
        self._lock = threading.RLock()
        self._here = _Here()
        self._pages = Pages()
        self._looks: dict[int, DeviceLook] = {}
        self._next = 1
        self.dropped = 0
        """Number of tensors that were not measured, because too many results were on their way."""

    @property
    def left_out(self) -> dict[str, int]:
        """Descriptions of devices that are not looked at."""
        return {REFUSED.format(kind, why): 1 for kind, why in self._refused.items()}

    @property
    def late(self) -> int:
        """Number of results that did not arrive in time, or never will."""
        return self._pages.lost

    def start(self) -> None:
        """Answer machine code from now on, if it asks."""
        if self.asked is not None:
            self.asked.start()

    def stop(self) -> None:
        """Answer no more."""
        if self.asked is not None:
            self.asked.stop()

    def measure(self, tensor: Any) -> int:
        """Measure a tensor. Returns the number of the look; 0: it cannot be measured, or not now.

        The tensor is on a device, or this returns 0.
        """
        kind, here = tensor.device.type, self._here
        if kind in self._refused or here.measures or tensor.dtype not in WORKING:
            return 0
        here.measures = True
        try:
            with unseen(), _unnoticed(), self._lock:
                if _transforms() is not None or backend(tensor.device).is_capturing:
                    return 0
                return self._tries(kind, tensor) if is_plain_on_device(tensor) else 0
        except _NoMemory:
            return 0
        except RuntimeError as error:  # NotImplementedError is one
            if is_the_programs(error):
                raise
            self._refused[kind] = str(error).partition("\n")[0]
            return 0
        finally:
            here.measures = False

    def _tries(self, kind: str, tensor: Any) -> int:
        if kind in self._tried:
            return self._measured(tensor)
        with _silence():  # an operation that is not there may warn
            number = self._measured(tensor)
        self._tried.add(kind)
        return number

    def _measured(self, tensor: Any) -> int:
        size, first, times, device = tensor.numel(), self._pages.next, 1, tensor.device
        if size:
            key = PageKey(device, WORKING[tensor.dtype], backend(device).stream(device))
            tensor, times = once(tensor)
            for part in parts(tensor):
                page = self._pages.open(key)
                if page is None:
                    self.dropped += 1
                    return 0
                put_numbers(part, page.rows[len(page.numbers)])
                self._pages.used(page)
        number, self._next = self._next, self._next + 1
        self._looks[number] = DeviceLook(first, self._pages.next - first, size, times)
        return number

    # -- results --------------------------------------------------------------------------------

    def send(self) -> None:
        """Send results to the CPU, and receive those that have arrived, without waiting."""
        with unseen(), _unnoticed(), self._lock:
            self._pages.send()
            self._pages.collect()
            self._forget()

    def step_ended(self) -> None:
        """A step is over: the only time at which a device may be waited for."""
        if self._pages.is_filling:
            with unseen(), _unnoticed(), self._lock:
                self._pages.collect(waits=True)

    def finish(self) -> None:
        """Wait for all results."""
        with unseen(), _unnoticed(), self._lock:
            self._pages.finish()

    def _forget(self) -> None:
        while len(self._looks) > MOST_KEPT:
            look = self._looks.pop(next(iter(self._looks)))
            for row in range(look.first, look.first + look.many):
                self._pages.rows.pop(row, None)

    def are_there(self, looks: Ints) -> Any:
        """Whether the result of each of these looks has arrived."""
        rows, known = self._pages.rows, self._looks
        return np.array([
            number in known
            and all(known[number].first + n in rows for n in range(known[number].many))
            for number in looks.tolist()
        ], np.bool_)  # fmt: skip

    def columns(self, looks: Ints) -> StatisticsColumns:
        """The statistics of these looks, whose results have arrived."""
        chosen = [self._looks[number] for number in looks.tolist()]
        rows = [self._pages.rows[look.first + n] for look in chosen for n in range(look.many)]
        numbers = np.array(rows, np.float64).reshape(-1, len(NUMBERS))
        many, size, times = np.array([look[1:] for look in chosen], np.int64).reshape(-1, 3).T
        return joined(numbers, many, times, size)


# Note [Unnoticed operations]
# Operations of ours are not recorded, neither by our callbacks nor by a profiler of the program,
# create no nodes, and do not depend on autocast or inference mode.


@cache
def _is_recorded() -> Callable[[], bool]:
    """The function that tells whether calls of this thread are reported to callbacks."""
    path = library("torch_cpu")
    if path is None:
        return bool
    try:
        found: Any = ctypes.CDLL(str(path))._ZN2at23isRecordFunctionEnabledEv
    except (OSError, AttributeError):
        return bool
    found.restype = ctypes.c_bool
    return found  # type: ignore[no-any-return]


@contextmanager
def _unnoticed() -> Iterator[None]:
    """A context in which operations of this thread leave no trace in the program."""
    recorded = _is_recorded()()
    if recorded:
        _record(False)  # noqa: FBT003 -- it has no name
    try:
        with torch._C._DisableAutocast(), torch._C._InferenceMode(False):  # noqa: FBT003 -- likewise
            _set_grad(False)  # noqa: FBT003 -- likewise; the guard around it restores the mode
            yield
    finally:
        if recorded:
            _record(True)  # noqa: FBT003 -- likewise


@contextmanager
def _silence() -> Iterator[None]:
    """A context without warnings. The registry of shown warnings is not changed."""
    filters: Any = warnings.filters
    filters.insert(0, _SILENT)
    try:
        yield
    finally:
        if _SILENT in filters:
            filters.remove(_SILENT)
