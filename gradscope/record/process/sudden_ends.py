"""Finishes a trace before calls that end the process without running any more Python."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, Protocol

from gradscope.record.script.handlers import own_get

Facts = Mapping[str, Any]

_NAMES = (
    "SIGKILL SIGABRT SIGALRM SIGBUS SIGFPE SIGHUP SIGILL SIGINT SIGPROF SIGQUIT SIGSEGV SIGSYS "
    "SIGTERM SIGTRAP SIGUSR1 SIGUSR2 SIGVTALRM SIGXCPU"
)
DEADLY = frozenset(getattr(signal, name) for name in _NAMES.split() if hasattr(signal, name))
"""Signals that end a process without a handler."""


class Sealed(Protocol):
    """A recording that can be completed in case the process ends."""

    def seal(self, ending: Facts) -> bool: ...
    def unseal(self) -> None: ...


class _Over:
    """Replaces a recording that has ended, for callers that still hold our functions."""

    def seal(self, ending: Facts) -> bool:
        return False

    def unseal(self) -> None:
        """Do nothing: nothing was sealed."""


class SuddenEnds:
    """Replaces the functions of `os` and `signal` after which no more Python runs.

    A forked child ends as usual: its recording belongs to its parent.
    """

    def __init__(self, recording: Sealed) -> None:
        self._recording: Sealed = recording
        self._process = os.getpid()
        self._replaced: list[tuple[Any, str, Any, Any]] = []

    def watch(self) -> None:
        """Start sealing the recording before each of these functions."""
        self._replace(os, "_exit", _exited)
        self._replace(os, "abort", lambda: _killed(signal.SIGABRT, "os.abort"))
        self._replace(os, "execv", lambda path, *_: _became(path))
        self._replace(os, "execve", lambda path, *_: _became(path))
        self._replace(os, "kill", self._kills)
        self._replace(os, "killpg", self._kills_group)
        self._replace(signal, "raise_signal", lambda number: self._kills(self._process, number))

    def forget(self) -> None:
        """Restore the originals, unless others have replaced them since."""
        while self._replaced:
            module, name, usual, ours = self._replaced.pop()
            if getattr(module, name) is ours:
                setattr(module, name, usual)
        self._recording = _Over()

    def _replace(self, module: Any, name: str, facts: Callable[..., Facts | None]) -> None:
        usual = getattr(module, name, None)
        if usual is None:
            return

        @wraps(usual)
        def ending(*args: Any, **kwargs: Any) -> Any:
            said = None
            if os.getpid() == self._process:
                try:
                    said = facts(*args, **kwargs)
                except (TypeError, ValueError):  # wrong arguments: the function raises
                    said = None
            if said is None:
                return usual(*args, **kwargs)
            with self._sealed(said):
                return usual(*args, **kwargs)

        setattr(module, name, ending)
        self._replaced.append((module, name, usual, ending))

    @contextmanager
    def _sealed(self, facts: Facts) -> Iterator[None]:
        recording = self._recording
        sealed = recording.seal(facts)
        try:
            yield
        finally:  # it did not end: the program does not exist, or the signal is blocked
            if sealed:
                recording.unseal()

    def _kills(self, process: int, number: int) -> Facts | None:
        deadly = number in DEADLY and own_get(number) == signal.SIG_DFL
        if process == self._process and deadly:
            return _killed(number, "killed itself")
        return None

    def _kills_group(self, group: int, number: int) -> Facts | None:
        return self._kills(self._process, number) if group in {0, os.getpgrp()} else None


def _exited(code: int) -> Facts:
    return {"exit": f"os._exit({int(code)})", "exit_code": int(code) & 255}


def _became(path: str | bytes | os.PathLike[str]) -> Facts:
    return {"exit": f"became {os.fsdecode(path)!r}"}


def _killed(number: int, words: str) -> Facts:
    return {"exit": f"{words} ({signal.Signals(number).name})", "exit_code": 128 + int(number)}
