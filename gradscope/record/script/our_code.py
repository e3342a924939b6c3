"""Whether a thread runs gradscope's own code, in which no other code may raise exceptions."""

from __future__ import annotations

import os
from types import FrameType

from gradscope.record.notes.sites import PACKAGE
from gradscope.record.script.tracebacks import is_below
from gradscope.watch.in_place.standing_in import HERE

LONGEST = 0.4
"""Longest time in seconds to wait for our own code, or for a long step of the program."""

_RECORDER = tuple(
    os.path.join(PACKAGE, room, "")  # noqa: PTH118
    for room in ("machine_code", "record", "trace", "watch")
)

_PASSES_ON = tuple(
    os.path.join(PACKAGE, "record", *place)  # noqa: PTH118
    for place in (("script", ""), ("run_script.py",), ("process", "sudden_ends.py"))
)
"""Files that do not record: they run the script, and its calls of `os` and `signal`."""

_GENERATED = ("gradscope.", "namedtuple_")
"""Modules whose generated methods (dataclasses, named tuples) have no file."""


def in_recorder(frame: FrameType | None) -> bool:
    """Whether our own code runs here, or the standard library or NumPy on its behalf."""
    if HERE.ours:
        return True
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_PASSES_ON):
            name = str(frame.f_globals.get("__name__"))
            if file.startswith(_RECORDER) or (file == "<string>" and name.startswith(_GENERATED)):
                return True
            if not is_below(frame.f_code):
                return False
        frame = frame.f_back
    return False
