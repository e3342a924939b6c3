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

TAKEN_OVER = "began a recording of its own (gradscope.record), so this trace ends there"


def current() -> Recording | None:
    """The recording under way in this process."""
    return next(iter(_UNDER_WAY.get(_KEY, ())), None)


def claimed(recording: Recording) -> Claim | None:
    """The claim to be the one under way; None: there is one already."""
    claim = (recording,)
    return claim if _UNDER_WAY.setdefault(_KEY, claim) is claim else None


def taken_over(recording: Recording) -> Claim | None:
    """The claim of the recording that `gradscope trace` makes of the script that starts this one.

    Alone, the script's own would run; so that of the command ends here.
    """
    other = current()
    if other is None or other.session is None or not other.options.script:
        return None
    other.session.acts.checks_functions = False  # that would run them while the script runs
    other.stop(ending={"exit": f"not known: {TAKEN_OVER}"})
    if not other.trouble:
        other.trouble = f"{other.options.script} {TAKEN_OVER}"
        other.complain(other.trouble)
    return claimed(recording)


def release(claim: Claim | None) -> None:
    """Another one may start, if this one was under way."""
    if claim is not None and _UNDER_WAY.get(_KEY) is claim:
        _UNDER_WAY.pop(_KEY, None)


ALREADY = "another recording is under way in this process; stop it before starting one"


def complain(text: str) -> None:
    """Say that a trace is not whole. The program goes on, so nothing is raised."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"gradscope: {text}; the program goes on\n")
