"""How far long work has come: told to whoever shows it, and to nobody otherwise."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Listener: TypeAlias = "Callable[[str, int, int], None]"
"""Is told what is being done, how much of it is done, and how much there is; 0: not known."""

_listeners: list[Listener] = []


@contextmanager
def told_to(listener: Listener) -> Iterator[None]:
    """Tell the listener until the block ends, and nobody else meanwhile."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def tell(what: str, done: int = 0, whole: int = 0) -> None:
    """Say what is being done now: as in "reading the trace"."""
    if _listeners:
        _listeners[-1](what, done, whole)
