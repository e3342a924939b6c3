"""Warnings that name the user's line, however deep in the runtime they arise."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

from gradscope.runtime.core.state.frames import is_ours


class Always:
    """Whether warnings that are given once per process are repeated."""

    on = False


def set_warn_always(b: bool) -> None:
    """Repeat warnings that otherwise are given once per process."""
    if not isinstance(b, bool):
        raise RuntimeError(f"setWarnOnlyOnce expects a bool, but got {type(b).__name__}")
    Always.on = b


def is_warn_always_enabled() -> bool:
    return Always.on


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn, with the location of the nearest frame outside the runtime."""
    frame, level = sys._getframe(0), 1
    while frame.f_back is not None and is_ours(frame):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


_said: set[str] = set()


def warn_once(text: str) -> None:
    """Warn, but only once per process."""
    if text not in _said or Always.on:
        _said.add(text)
        warn(text)


def while_failing(say: Callable[[], None]) -> None:
    """Give a warning during an error. The error goes first if warnings are errors."""
    try:
        say()
    except Warning as warning:
        sys.stderr.write(f"{type(warning).__name__}: {warning}\n")
