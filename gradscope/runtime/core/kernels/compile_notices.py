"""Notices while a kernel is compiled: for a person at a terminal, and for a recording.

They explain the wait, so that it is not taken for the program's own time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from gradscope.program_listener import WORKS_FOR_ITSELF

Notice = Callable[[str], None]


@dataclass
class _Telling:
    """The receiver of notices, and whether one is shown: one compilation may start others."""

    warmup: Notice | None = None
    showing: bool = False


_telling = _Telling()


watcher: Any = None
"""The active recording, or None; see probe.py."""


@contextmanager
def own_work(what: str) -> Iterator[None]:
    """Report to the recording that gradscope itself works here; times do not count it.

    For example `own_work("compiles sum")`.
    """
    told = watcher
    if told is None:
        yield
        return
    number = told.span_begins(f"gradscope {what}", WORKS_FOR_ITSELF)
    try:
        yield
    finally:
        told.span_ends(number)


def telling_first_compilation(function: Callable[..., Any]) -> AbstractContextManager[Any]:
    """Show a spinner while this function is compiled, on a standard error that is a terminal."""
    title = title_of(function)
    if _telling.warmup is not None:
        _telling.warmup(title)
        return nullcontext()
    if _telling.showing or not _is_terminal():
        return nullcontext()
    return _spinner(f"gradscope: compiling {title}, this once")


def title_of(function: Callable[..., Any]) -> str:
    """The name of a kernel in words."""
    return function.__name__.strip("_").replace("_", " ")


@contextmanager
def to_warmup(tell: Notice) -> Iterator[None]:
    """Pass names of kernels to `tell`, and show nothing here."""
    _telling.warmup = tell
    try:
        yield
    finally:
        _telling.warmup = None


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def _spinner(text: str) -> Iterator[None]:
    from rich.console import Console

    _telling.showing = True
    try:
        console = Console(file=sys.stderr, highlight=False, markup=False)
        with console.status(text):
            yield
    finally:
        _telling.showing = False
