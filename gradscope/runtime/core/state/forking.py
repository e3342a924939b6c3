"""What a forked child must not inherit: locks held by missing threads, unfinished imports."""

from __future__ import annotations

import os
import sys
import threading
from importlib import import_module
from typing import Any, TypeVar

from gradscope.runtime.core.state.weak_sets import Alive

L = TypeVar("L")

_renewed: Alive[Any] = Alive()
_waited_for: Alive[Any] = Alive()
_held: list[Any] = []
PATIENCE = 1.0
"""Seconds to wait for a lock, since the forking thread may hold it itself."""

_AT_FIRST_CALL = (
    "gradscope.runtime.autograd",
    "gradscope.runtime.core.autograd",
    "gradscope.runtime.core.errors.engine",
    "gradscope.runtime.core.graph",
)


def renewed(lock: L) -> L:
    """Register this lock: in a forked child it is released."""
    _renewed.add(lock)
    return lock


def waited_for(lock: L) -> L:
    """The same, and a fork waits for its holder, since the data it guards must be consistent."""
    _waited_for.add(lock)
    return renewed(lock)


def _before() -> None:
    _finish_imports()
    _held.extend(lock for lock in list(_waited_for) if lock.acquire(timeout=PATIENCE))


def _in_parent() -> None:
    while _held:
        _held.pop().release()


def _in_child() -> None:
    _held.clear()
    for lock in list(_renewed):
        lock._at_fork_reinit()


def _finish_imports() -> None:
    """Import what backwards import at the first call, and wait for threads that are importing it.

    Python itself does not wait: a module that another thread was importing would stay missing in
    the child.
    """
    if threading.active_count() == 1:
        return
    from pkgutil import walk_packages

    for package in _AT_FIRST_CALL:
        path = getattr(sys.modules.get(package), "__path__", ())
        for each in walk_packages(path, f"{package}."):
            import_module(each.name)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
