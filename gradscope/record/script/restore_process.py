"""Restores everything that a script may have changed in the process.

# Note [What Python finds at its end]
At exit, Python cleans up what a script has left: it clears `__main__` and the other modules, which
calls `__del__` and ends suspended generators, and it flushes `sys.stdout`. If the process ends with
the script, gradscope's final lines are printed in the restored process, and the first thing done at
exit is to bring back everything as the script left it.
"""

from __future__ import annotations

import atexit
import gc
import io
import logging
import multiprocessing
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from gradscope.trace.file.background_write import identity_of
from gradscope.watch.in_place.standing_in import Replaced

LAST = ("last_exc", "last_type", "last_value", "last_traceback")
"""Names in `sys` of the exception that ended a script."""


@contextmanager
def as_before(*, ends: bool) -> Iterator[None]:
    """A context in which a script may change the process.

    `ends`: the process ends with the script. See Note [What Python finds at its end].
    """
    with warnings.catch_warnings():
        before, errors = [part() for part in PARTS], _file_of(sys.stderr)
        replaced = Replaced()
        if ends:
            own = gc.get_freeze_count()  # Python 3.12 freezes some objects itself
            gc.freeze()  # existing objects need not be traversed again and again
            gc.enable()  # while only gradscope runs, nothing is collected
            frozen, count = gc.get_freeze_count() - own, gc.get_freeze_count
            replaced.put(gc, "get_freeze_count", lambda: max(count() - frozen, 0))
        try:
            yield
        finally:
            replaced.take_back()
            if ends:
                atexit.register(_leave, [part() for part in PARTS])
            _put_back(before)
            if sys.stdout is None or sys.stdout.closed:
                sys.stdout = _nowhere()
            if sys.stderr is None or sys.stderr.closed or _file_of(sys.stderr) != errors:
                sys.stderr = _nowhere()  # its descriptor may now be that of a file of the script


def _leave(parts: list[Callable[[], None]]) -> None:
    """Bring back everything as the script left it; we hold no reference to its exception."""
    _put_back(parts)
    traceback = getattr(sys, "last_traceback", None)
    frame = traceback.tb_frame.f_back if traceback is not None else None
    while frame is not None:
        with suppress(RuntimeError):  # the generator is not exhausted
            frame.clear()
        frame = frame.f_back


def _put_back(parts: list[Callable[[], None]]) -> None:
    for part in parts:
        part()


def _file_of(stream: TextIO | None) -> tuple[int, int] | None:
    """The file to which a stream's descriptor refers. See Note [Descriptors are everybody's]."""
    try:
        return identity_of(stream.fileno()) if stream is not None else None
    except (OSError, ValueError):  # it has no descriptor, or is closed
        return None


def _nowhere() -> TextIO:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8")


# What scripts change: each function reads one part and returns a function that restores it ------


def _signals() -> Callable[[], None]:
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    before = {number: signal.getsignal(number) for number in signal.valid_signals()}

    def put_back() -> None:
        for number, handler in before.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)

    return put_back


def _system() -> Callable[[], None]:
    """Attributes of `sys`, and how exceptions and warnings are shown."""
    names = ("argv", "displayhook", "excepthook", "stderr", "stdin", "stdout", *LAST)
    before = {name: getattr(sys, name) for name in names if hasattr(sys, name)}
    lists: list[tuple[list[Any], list[Any]]] = [
        (each, list(each)) for each in (sys.path, sys.meta_path, sys.path_hooks)
    ]
    limit, of_threads = sys.getrecursionlimit(), threading.excepthook
    filters, show = list(warnings.filters), warnings.showwarning

    def put_back() -> None:
        for name in LAST:
            vars(sys).pop(name, None)
        vars(sys).update(before)
        for each, contents in lists:
            each[:] = contents
        sys.setrecursionlimit(limit)
        threading.excepthook = of_threads
        warnings.resetwarnings()
        warnings.filters[:] = filters  # type: ignore[index]
        warnings.showwarning = show

    return put_back


def _surroundings() -> Callable[[], None]:
    """The working directory, the environment, and settings of Python's modules."""
    folder, environment = _folder(), dict(os.environ)
    collecting, thresholds = gc.isenabled(), gc.get_threshold()
    started: Any = multiprocessing.context._default_context
    method = started._actual_context

    def put_back() -> None:
        if folder is not None and folder != _folder():
            with suppress(OSError):
                os.chdir(folder)
        if environment != dict(os.environ):
            os.environ.clear()
            os.environ.update(environment)
        gc.set_threshold(*thresholds)
        (gc.enable if collecting else gc.disable)()
        started._actual_context = method

    return put_back


def _folder() -> Path | None:
    try:
        return Path.cwd()
    except OSError:
        return None  # it no longer exists


def _randomness() -> Callable[[], None]:
    """The states of Python's and NumPy's random generators, and NumPy's print and error options."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002  scripts draw from it
    errors, printing = np.geterr(), dict(np.get_printoptions())
    printing.pop("override_repr", None)

    def put_back() -> None:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        np.seterr(**errors)
        np.set_printoptions(**printing)  # type: ignore[arg-type]

    return put_back


def _logging() -> Callable[[], None]:
    root = logging.getLogger()
    handlers, level, disabled = list(root.handlers), root.level, root.manager.disable

    def put_back() -> None:
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.disable(disabled)

    return put_back


PARTS = (_signals, _system, _surroundings, _randomness, _logging)
