"""The threads known to a recording of PyTorch, each with its state."""

from __future__ import annotations

import threading
from typing import Any
from weakref import WeakSet

from gradscope.record.notes.positions.system_threads import native_id, system_name

DEVICE = "pt_autograd_"
"""The system's name of the thread that runs a device's nodes; the device's index follows."""


class PyTorchThread:
    """One thread.

    `system`: its name and the system's id, if PyTorch's engine started it. The thread of a device
    has the name of the device.
    """

    __slots__ = ("__weakref__", "context", "system", "task", "thread_id")

    def __init__(self, ident: int, system: tuple[str, int] | None = None) -> None:
        self.thread_id = ident
        self.context = 0
        self.system = system
        self.task: Any = None
        with _lock:
            _states.add(self)


class _Local(threading.local):
    """The state of each thread, created when it is first needed."""

    def __init__(self) -> None:
        ident = threading.get_ident()
        ours = ident in _of_engine or system_name(ident).startswith(DEVICE)
        self.state = of_engine(ident) if ours else PyTorchThread(ident)


_lock, _engines = threading.Lock(), threading.Lock()
_states: WeakSet[PyTorchThread] = WeakSet()
_of_engine: dict[int, PyTorchThread] = {}
local = _Local()


def of_engine(ident: int) -> PyTorchThread:
    """The state of a thread that PyTorch's engine started, and that lives as long as the process.

    It may never run Python.
    """
    with _engines:
        found = _of_engine.get(ident)
        if found is None:
            found = _of_engine[ident] = PyTorchThread(ident, _described(ident))
    return found


def _described(ident: int) -> tuple[str, int]:
    from gradscope.watch.runs.engine_threads import device_type

    name = system_name(ident)
    index = name.removeprefix(DEVICE)
    device = index != name and index.isdecimal()
    return (f"{device_type()}:{index}" if device else name), native_id(name)


def engine_states() -> list[PyTorchThread]:
    """The states of all known threads of the engine."""
    with _engines:
        return [*_of_engine.values()]


def known() -> list[PyTorchThread]:
    """The states of all living threads that have needed one."""
    with _lock:
        return list(_states)


class PyTorchPause:
    """A period that is not recorded."""

    saw_backward = False
    depth = 0  # nested backwards

    def began(self) -> int:
        """Called when an unrecorded backward began."""
        self.saw_backward = True
        self.depth += 1
        return 0

    def ended(self) -> bool:
        """Called when an unrecorded backward ended. Returns whether it was an outermost one."""
        self.depth -= 1
        return self.depth == 0


class UnderWay:
    """Whether PyTorch is being recorded in this process."""

    now = False
