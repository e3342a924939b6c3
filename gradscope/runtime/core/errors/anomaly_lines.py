"""Lines of the program that anomaly mode stores, for errors when nothing is recorded."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from gradscope.runtime.core.state.frames import TRACEBACK, outside

if TYPE_CHECKING:
    from gradscope.runtime.core.tensors.memory.storage import VersionCounter


def remember_writer(versions: VersionCounter) -> None:
    """Store the line that is writing to an alias set."""
    import traceback

    frame = outside(sys._getframe(1))
    stack = [] if frame is None else traceback.format_stack(frame, limit=1)
    versions.place = _place(stack)


def lines_from_anomaly_mode(node: Any, writes: VersionCounter | None) -> list[str]:
    """Sentences on where a node was made and where the last write was, as far as known."""
    lines = []
    extra = None if node is None else node._extra
    made = _place([] if extra is None else extra.metadata.get(TRACEBACK, []))
    if made:
        lines.append(f"{type(node).__name__} was made at {made}.")
    writer = last_writer(writes)
    if writer:
        place = getattr(writes, "place", "")
        lines.append(f"{writer} was the last to write to it{f', at {place}' if place else ''}.")
    return lines


def last_writer(writes: VersionCounter | None) -> str:
    """Name of the operation that last wrote to an alias set, such as `add_`; "" if unknown."""
    writer = getattr(writes, "writer", "")
    return str(getattr(writer, "base_name", writer))


def _place(stack: list[str]) -> str:
    """The innermost line of a formatted stack: `train.py:4 (y.add_(1))`."""
    if not stack:
        return ""
    match = re.match(r'\s*File "(?P<file>.*)", line (?P<line>\d+)[^\n]*\n?\s*(?P<text>[^\n]*)',
                     stack[-1])  # fmt: skip
    if match is None:
        return ""
    text = match["text"].strip()
    return f"{match['file']}:{match['line']}{f' ({text})' if text else ''}"
