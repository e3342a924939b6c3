"""What `gradscope trace` says at the end: where the trace is, what is in it, what to type next."""

from __future__ import annotations

import shlex
from pathlib import Path

from gradscope.analysis.report import inspect
from gradscope.errors import UnreadableTraceError
from gradscope.scene.readable import byte_count, plural
from gradscope.trace.load_save import load
from gradscope.trace.schema import Node
from gradscope.trace.trace import Trace

LOOKED_THROUGH = 16 << 20
"""Larger traces are not looked through for this; `gradscope inspect` does."""


def recorded(path: Path, shown: Path) -> str:
    """One line about the trace just written here; `shown` is what the user calls it."""
    name = shlex.quote(str(shown))
    try:
        size = path.stat().st_size
        held = byte_count(size) if size > LOOKED_THROUGH else _held(load(path))
    except (OSError, UnreadableTraceError) as error:
        return str(error)
    return f"{shown}: {held}; next: gradscope inspect {name}, gradscope render {name}"


def _held(trace: Trace) -> str:
    found = len(inspect(trace).findings)
    nodes = plural(len(trace.table(Node)), "node")
    events = plural(trace.event_count, "event")
    whole = "" if not trace.notes else ", not whole"
    return f"{nodes}, {events}, {plural(found, 'finding')}{whole}"
