"""Search: by a breakpoint, or by a part of a name."""

from __future__ import annotations

import numpy as np

from gradscope.analysis.lookups import Ids
from gradscope.analysis.state.breakpoints.hits import hits
from gradscope.debug.walk import Walk
from gradscope.errors import UnknownNameError
from gradscope.trace.schema import NONE
from gradscope.trace.trace import Trace

NAMED = ("node", "op", "module", "grad", "hook", "mark", "act")
"""Kinds of breakpoints that are searched by a part of a name."""


def hit(walk: Walk, text: str, *, forward: bool) -> int:
    """The next or previous moment that matches; NONE if there is none."""
    moments = _moments(walk.trace, text)
    if forward:
        place = int(np.searchsorted(moments, walk.moment, side="right"))
    else:
        place = int(np.searchsorted(moments, walk.moment, side="left")) - 1
    return int(moments[place]) if 0 <= place < len(moments) else NONE


def _moments(trace: Trace, text: str) -> Ids:
    """The moments of the text as a breakpoint, or else of names that contain it."""
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
