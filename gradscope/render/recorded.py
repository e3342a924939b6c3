"""What `gradscope trace` says at the end: where the trace is, what is in it, what to type next."""

from __future__ import annotations

import shlex
from pathlib import Path

from gradscope.analysis.report import inspect
from gradscope.scene.words import byte_count, plural
from gradscope.trace.codec import load
from gradscope.trace.run import Trace
from gradscope.trace.schema import Node

LOOKED_THROUGH = 16 << 20
"""Larger traces are not looked through for this; `gradscope inspect` does."""


def recorded(path: Path) -> str:
    """One line about the trace just written here."""
    size = path.stat().st_size
    name = shlex.quote(str(path))
    held = byte_count(size) if size > LOOKED_THROUGH else _held(load(path))
    return f"{path}: {held}; next: gradscope inspect {name}, gradscope render {name}"


def _held(trace: Trace) -> str:
    found = len(inspect(trace).findings)
    nodes = plural(len(trace.table(Node)), "node")
    events = plural(trace.event_count, "event")
    return f"{nodes}, {events}, {plural(found, 'finding') if found else 'nothing wrong found'}"
