"""What somebody searches for: what a breakpoint may be, or a part of a name."""

from __future__ import annotations

import numpy as np

from gradscope.analysis.lookups import Ids
from gradscope.analysis.state.breakpoints.hits import hits
from gradscope.debug.walk import Walk
from gradscope.errors import UnknownNameError
from gradscope.trace.schema import NONE
from gradscope.trace.trace import Trace

NAMED = ("node", "op", "module", "grad", "hook", "mark", "act")
"""Kinds of what has a name that a part of may be typed."""


def hit(walk: Walk, text: str, *, forward: bool) -> int:
    """The next moment of what is searched, or the one before; NONE: there is none."""
    moments = _moments(walk.trace, text)
    if forward:
        place = int(np.searchsorted(moments, walk.moment, side="right"))
    else:
        place = int(np.searchsorted(moments, walk.moment, side="left")) - 1
    return int(moments[place]) if 0 <= place < len(moments) else NONE


def _moments(trace: Trace, text: str) -> Ids:
    """As a breakpoint it is what it says; else all whose names have it in them."""
    try:
        return hits(trace, text)
    except UnknownNameError as error:
        parts = dict.fromkeys(f"*{each}*" for each in (text, text.lower(), text.capitalize()))
        found = [each for kind in NAMED for part in parts for each in _named(trace, kind, part)]
        if not found:
            raise error from None
        return np.unique(np.concatenate(found))


def _named(trace: Trace, kind: str, pattern: str) -> list[Ids]:
    try:
        return [hits(trace, f"{kind} {pattern}")]
    except UnknownNameError:
        return []
