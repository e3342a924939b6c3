"""The threads known to a recording of PyTorch, each with its state."""

from __future__ import annotations

import threading
from typing import Any
from weakref import WeakSet


class PyTorchThread:
    """One thread."""

    __slots__ = ("__weakref__", "context", "task", "thread_id")

    def __init__(self) -> None:
        self.thread_id = threading.get_ident()
        self.context = 0
        self.task: Any = None
        with _lock:
            _states.add(self)


class _Local(threading.local):
    """The state of each thread, created when it is first needed."""

    def __init__(self) -> None:
        self.state = PyTorchThread()


_lock = threading.Lock()
_states: WeakSet[PyTorchThread] = WeakSet()
local = _Local()


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
