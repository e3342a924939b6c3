"""A snapshot of the trace of a running recording."""

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
    """The trace after `seal` has completed it for this snapshot; None: not possible now.

    Running threads add nothing to it until the snapshot is complete.
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
