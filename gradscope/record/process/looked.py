"""The trace of a recording that goes on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from gradscope.trace.load_save import load
from gradscope.trace.writer import FileWriter, MemoryWriter

if TYPE_CHECKING:
    from gradscope.record.session import Session
    from gradscope.trace.trace import Trace


def looked(
    session: Session, writer: FileWriter | MemoryWriter, seal: Callable[[], None]
) -> Trace | None:
    """As it is once `seal` has ended it for this look; None: one cannot look now.

    Threads that run meanwhile add nothing to it before the look is over.
    """
    read = partial(load, writer.path) if isinstance(writer, FileWriter) else writer.trace
    found: list[Trace] = []

    def look() -> None:
        seal()
        try:
            found.append(read())
        finally:
            writer.unseal()

    with session.own_time.working("looking"):
        return found[0] if session.flush(look) else None
