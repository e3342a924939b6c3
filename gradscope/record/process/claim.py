"""Which recording is under way in this process: one at a time, from its start until it is written.

Two recordings at once would both change the engine, and put back what the other had put there.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradscope.record.recording import Recording

Claim = tuple["Recording", ...]
_KEY = "recording"
_UNDER_WAY: dict[str, Claim] = {}
"""`setdefault` and `pop` need no lock: no thread and no signal handler comes between."""


def current() -> Recording | None:
    """The recording under way in this process."""
    return next(iter(_UNDER_WAY.get(_KEY, ())), None)


def claimed(recording: Recording) -> Claim | None:
    """The claim to be the one under way; None: there is one already."""
    claim = (recording,)
    return claim if _UNDER_WAY.setdefault(_KEY, claim) is claim else None


def release(claim: Claim | None) -> None:
    """Another one may start, if this one was under way."""
    if claim is not None and _UNDER_WAY.get(_KEY) is claim:
        _UNDER_WAY.pop(_KEY, None)


def already_recording() -> str:
    """Why another one cannot start."""
    other = current()
    if other is None or not other.options.script:
        return "another recording is under way in this process; stop it before starting one"
    return (
        "`gradscope trace` records this script already; run it with `python`, or take its own "
        "gradscope.record out (gradscope.span, mark and step may stay)"
    )


def complain(text: str) -> None:
    """Say that a trace is not whole. The program goes on, so nothing is raised."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"gradscope: {text}; the program goes on\n")
