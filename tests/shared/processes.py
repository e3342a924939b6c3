"""Processes that tests start: they hear the signals any program hears, and end with their test."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

LONGEST = 600.0
"""Seconds that a test waits for a process without having said for how long."""


def hear_signals() -> None:
    """Let children hear SIGINT and SIGHUP where `nohup` or `&` started the tests with them ignored.

    What is ignored stays so in every child; a handler is dropped when another program starts. So
    the tests themselves still outlive their terminal. SIGINT is one that they send to themselves.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda number, frame: None)


@contextmanager
def ended_with_the_test() -> Iterator[None]:
    """Whatever process starts inside has a group of its own, and is killed at the end with it."""
    before = set(multiprocessing.active_children())
    started: list[subprocess.Popen[Any]] = []
    changed = {
        name: getattr(subprocess.Popen, name) for name in ("__init__", "wait", "communicate")
    }

    def begin(self: Any, *args: Any, **options: Any) -> None:
        if not options.get("start_new_session"):
            options.setdefault("process_group", 0)
        changed["__init__"](self, *args, **options)
        started.append(self)

    def wait(self: Any, timeout: float | None = None) -> Any:
        return changed["wait"](self, LONGEST if timeout is None else timeout)

    def communicate(self: Any, input: Any = None, timeout: float | None = None) -> Any:
        return changed["communicate"](self, input, LONGEST if timeout is None else timeout)

    for name, method in (("__init__", begin), ("wait", wait), ("communicate", communicate)):
        setattr(subprocess.Popen, name, method)
    try:
        yield
    finally:
        for name, method in changed.items():
            setattr(subprocess.Popen, name, method)
        for process in started:
            end(process)
        for child in set(multiprocessing.active_children()) - before:
            child.kill()
            child.join()


def end(process: subprocess.Popen[Any]) -> None:
    """Kill a process, and what it has started and left behind."""
    if sys.platform != "win32":
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    if process.returncode is None:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
