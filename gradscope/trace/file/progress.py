"""Progress of long work, reported to a listener if there is one."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Listener: TypeAlias = "Callable[[str, int, int], None]"
"""Receives what is being done, how much of it is done, and the total; 0: not known."""

_listeners: list[Listener] = []


@contextmanager
def told_to(listener: Listener) -> Iterator[None]:
    """Report progress to this listener, and to no other, until the block ends."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def tell(what: str, done: int = 0, whole: int = 0) -> None:
    """Report what is being done now, such as "reading the trace"."""
    if _listeners:
        _listeners[-1](what, done, whole)
