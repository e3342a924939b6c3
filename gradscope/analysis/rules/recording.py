"""Rules about the recording itself: what is missing from it, and so hidden from other rules."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.findings import Severity
from gradscope.analysis.identity.sites import Site
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.shortcomings import (
    GROWING,
    UNDER_TORCHRUN,
    UNSEEN,
    ran_elsewhere,
    starts_ranks,
)
from gradscope.trace.trace import Trace

WHY_CUT = "the program was killed, or its disk was full, before the recording was closed"
FIX_CUT = "let the program end normally, or record fewer steps, and record again"
WHY_DROPPED = "the recorder reached a limit (--max-events, --max-bytes)"
FIX_DROPPED = "raise --max-events or --max-bytes, or limit the recording to fewer steps"
WHY_ONE = "a recording covers the process it began in, not the processes that one starts"
FIX_ONE = (
    "record the child too: `with gradscope.record(path_of_its_own): …` in the code it runs; ranks "
    "that are spawned, not forked, are recorded without that"
)
WHY_ODD = "the file was changed after it was recorded, or was written by another version"
WHY_UNSEEN = "this version of gradscope cannot observe it, or it exceeded a limit of the recorder"
FIX_UNSEEN = "nothing to fix in the program; findings that need what is named may be missing"
FIX_ODD = "nothing that this version shows is missing; to see everything, use a newer version"


@rule("GS101", "incomplete-trace", needs="graph")
def incomplete_trace(trace: Trace) -> Iterator[Found]:
    """Part of the run is not in the trace, so a missing finding there proves nothing.

    If the program was killed or the recorder reached a limit (--max-events, --max-bytes), the trace
    ends early or has gaps. Everything in it is correct, but what you are looking for may be in the
    missing part.

    Bad:
        gradscope trace --max-events 1000 train.py

    Good:
        gradscope trace --steps 3 train.py
    """
    for note in trace.notes:
        if note.startswith(GROWING):
            continue
        cut = trace.truncated and note.startswith("truncated:")
        dropped = note.startswith("dropped:")
        unseen = note.startswith(UNSEEN)
        why, fix = WHY_ODD, FIX_ODD
        if cut or dropped:
            why, fix = (WHY_CUT, FIX_CUT) if cut else (WHY_DROPPED, FIX_DROPPED)
        elif unseen:
            why, fix = WHY_UNSEEN, FIX_UNSEEN
        what = "The trace is incomplete:" if cut or dropped else "The file is"
        yield Found(
            message=f"{note[0].upper()}{note[1:]}" if unseen else f"{what} {note}",
            site=Site(),
            evidence=(),
            why=why,
            fix=fix,
            severity=None if cut or dropped else Severity.NOTE,
        )
    if elsewhere := ran_elsewhere(trace.meta):
        yield Found(
            message=f"The trace covers one process: {elsewhere}",
            site=Site(),
            evidence=(),
            why=WHY_ONE,
            fix=f"{UNDER_TORCHRUN}, or with --ranks-here N"
            if starts_ranks(trace.meta)
            else FIX_ONE,
            severity=Severity.NOTE,
        )
