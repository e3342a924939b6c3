"""The active recording of this process: one at a time, from its start until it is written.

Two recordings at once would both change the engine, and each would undo the other's changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradscope.record.recording import Recording

Claim = tuple["Recording", ...]
_KEY = "recording"
_UNDER_WAY: dict[str, Claim] = {}
"""`setdefault` and `pop` need no lock: no thread or signal handler can interrupt them."""

TAKEN_OVER = "started its own recording (gradscope.record), so this trace ends there"


def current() -> Recording | None:
    """The active recording of this process."""
    return next(iter(_UNDER_WAY.get(_KEY, ())), None)


def claimed(recording: Recording) -> Claim | None:
    """The claim to be the active recording; None: there is one already."""
    claim = (recording,)
    return claim if _UNDER_WAY.setdefault(_KEY, claim) is claim else None


def taken_over(recording: Recording) -> Claim | None:
    """The claim of a recording started by a script that runs under `gradscope trace`.

    Without `gradscope trace`, the script's own recording would run; so that of the command ends.
    """
    other = current()
    if other is None or other.session is None or not other.options.script:
        return None
    other.session.acts.checks_functions = False  # it would run them while the script runs
    other.stop(ending={"exit": f"not known: {TAKEN_OVER}"})
    if not other.trouble:
        other.trouble = f"{other.options.script} {TAKEN_OVER}"
        other.complain(other.trouble)
    return claimed(recording)


def release(claim: Claim | None) -> None:
    """Release the claim, so that another recording may start."""
    if claim is not None and _UNDER_WAY.get(_KEY) is claim:
        _UNDER_WAY.pop(_KEY, None)


ALREADY = "another recording is active in this process; stop it before starting one"
