"""Notices the child processes of a recorded process; the trace lists them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any

from gradscope.record.notes.sites import caller_of, is_ours, shown, working_directory
from gradscope.record.process.children.started_ranks import StartedRanks
from gradscope.record.process.forks import warn_of_threads, without_warnings
from gradscope.record.script.tracebacks import is_below
from gradscope.trace.text import clean
from gradscope.watch.in_place.standing_in import HERE

LOADER = "data loader worker"
LOADERS = ("gradscope.runtime.utils.data", "torch.utils.data")
MOST_PIDS = 16
"""Number of process ids that are stored per kind and line."""


class Children:
    """Notices every process that Python starts, unless it is recorded itself.

    `changed` is called after each new process with all processes, grouped by kind and line.
    """

    def __init__(
        self, changed: Callable[[list[dict[str, Any]]], None], ranks: StartedRanks | None = None
    ) -> None:
        self._changed = changed
        self._ranks = ranks
        self._process = os.getpid()
        self._folder = working_directory()
        self._groups: dict[tuple[str, str], dict[str, Any]] = {}
        self._group_of: dict[int, dict[str, Any]] = {}  # by process id
        self._replaced: list[tuple[Any, str, Any, Any]] = []
        self._starting = threading.local()  # already noticed by an outer call

    def groups(self) -> list[dict[str, Any]]:
        """All processes so far: kind, line, count, and the first process ids."""
        return list(self._groups.values())

    def watch(self) -> None:
        """Start noticing processes."""
        module: Any = os
        for name in ("fork", "forkpty"):
            if hasattr(module, name):
                self._replace(module, name, self._forked(getattr(module, name)))
        self._replace(BaseProcess, "start", self._started(BaseProcess.start))
        self._replace(subprocess.Popen, "__init__", self._opened(subprocess.Popen.__init__))

    def forget(self) -> None:
        """Restore the original functions, unless they have been replaced by others since."""
        if self._ranks is not None and any(each["kind"] != LOADER for each in self.groups()):
            self._add_files(self._ranks.files())
        while self._replaced:
            owner, name, usual, ours = self._replaced.pop()
            if getattr(owner, name) is ours:
                setattr(owner, name, usual)
        self._changed = _nobody

    def _add_files(self, files: dict[int, str]) -> None:
        """Add the files in which child processes have recorded themselves."""
        for number in (each for each in files if each in self._group_of):
            self._group_of[number].setdefault("traces", []).append(files[number])
        self._changed(self.groups())

    def _replace(self, owner: Any, name: str, ours: Any) -> None:
        self._replaced.append((owner, name, getattr(owner, name), ours))
        setattr(owner, name, ours)

    def _forked(self, fork: Callable[[], Any]) -> Callable[[], Any]:
        silently = without_warnings(fork)

        @wraps(fork)
        def told() -> Any:
            made = silently()
            number = made[0] if isinstance(made, tuple) else made
            if number:
                warn_of_threads(fork.__name__)
                if not getattr(self._starting, "now", False):
                    self._add("fork", number, sys._getframe(1))
            return made

        return told

    def _started(self, start: Callable[[Any], None]) -> Callable[[Any], None]:
        @wraps(start)
        def told(process: Any) -> None:
            target = str(getattr(getattr(process, "_target", None), "__module__", ""))
            loads = target.startswith(LOADERS)
            ranks = None if loads else self._ranks
            before, self._starting.now = getattr(self._starting, "now", False), True
            try:
                with nullcontext() if ranks is None else ranks.replacing(process):
                    start(process)
            finally:
                self._starting.now = before
            self._add(LOADER if loads else process._popen.method, process.pid, sys._getframe(1))

        return told

    def _opened(self, init: Callable[..., None]) -> Callable[..., None]:
        @wraps(init)
        def told(popen: Any, args: Any, *others: Any, **options: Any) -> None:
            init(popen, args, *others, **options)
            by_compiler = HERE.ours
            if _is_python(args) and not by_compiler and not getattr(self._starting, "now", False):
                self._add("subprocess", popen.pid, sys._getframe(1))

        return told

    def _add(self, kind: str, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:
            return  # a forked child has its own children
        place = self._place(frame)
        found = {"kind": kind, "line": place, "count": 0, "pids": []}
        group = self._groups.setdefault((kind, place), found)
        group["count"] += 1
        self._group_of[number] = group
        if len(group["pids"]) < MOST_PIDS:
            group["pids"].append(number)
        self._changed(self.groups())

    def _place(self, frame: FrameType | None) -> str:
        while frame is not None and (is_ours(frame.f_code) or is_below(frame.f_code)):
            frame = caller_of(frame)
        if frame is None:
            return ""
        return clean(f"{shown(frame.f_code.co_filename, self._folder)}:{frame.f_lineno}")


def _nobody(groups: list[dict[str, Any]]) -> None:
    """Called instead of `changed` after the recording."""


def _is_python(args: Any) -> bool:
    """Whether a command runs this Python, and not gradscope, which records on its own."""
    if isinstance(args, str | bytes | os.PathLike) or not args:
        return False
    words = [os.fsdecode(word) for word in args]
    return words[0] == sys.executable and words[1:4] != ["-m", "gradscope", "trace"]
