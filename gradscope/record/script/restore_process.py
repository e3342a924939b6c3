"""A process in which a script has run is afterwards what it was: whatever scripts change in it."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import random
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np


@contextmanager
def as_before() -> Iterator[None]:
    """Inside, a script may change what it likes."""
    with _signals(), _surroundings(), _randomness(), _logging():
        yield


@contextmanager
def _signals() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in signal.valid_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)


@contextmanager
def _surroundings() -> Iterator[None]:
    """The folder, the environment, and switches of Python's own modules."""
    folder, environment = _folder(), dict(os.environ)
    finders, hooks, display = list(sys.meta_path), list(sys.path_hooks), sys.displayhook
    limit, collecting, thresholds = sys.getrecursionlimit(), gc.isenabled(), gc.get_threshold()
    started: Any = multiprocessing.context._default_context
    method = started._actual_context
    try:
        yield
    finally:
        if folder is not None and folder != _folder():
            with suppress(OSError):
                os.chdir(folder)
        if environment != dict(os.environ):
            os.environ.clear()
            os.environ.update(environment)
        sys.meta_path[:], sys.path_hooks[:], sys.displayhook = finders, hooks, display
        sys.setrecursionlimit(limit)
        gc.set_threshold(*thresholds)
        (gc.enable if collecting else gc.disable)()
        started._actual_context = method


def _folder() -> Path | None:
    try:
        return Path.cwd()
    except OSError:
        return None  # it is gone


@contextmanager
def _randomness() -> Iterator[None]:
    """Where Python's and NumPy's own generators stand, and how NumPy prints and warns."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002  scripts draw from it
    errors, printing = np.geterr(), dict(np.get_printoptions())
    printing.pop("override_repr", None)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        np.seterr(**errors)
        np.set_printoptions(**printing)  # type: ignore[arg-type]


@contextmanager
def _logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, disabled = list(root.handlers), root.level, root.manager.disable
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.disable(disabled)
