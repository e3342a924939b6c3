"""Rules about the recording itself: what no other rule can see."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.findings import Severity
from gradscope.analysis.identity.sites import Site
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.shortcomings import UNSEEN, ran_elsewhere
from gradscope.trace.trace import Trace

WHY_CUT = "the program was killed, or its disk was full, before the recording was closed"
FIX_CUT = "let the program end, or record fewer steps, and record again"
WHY_DROPPED = "the recorder kept to its budget"
FIX_DROPPED = "raise --max-events or --max-bytes, or limit the recording to fewer steps"
WHY_ONE = "a recording is of the process it began in, and not of those that one starts"
FIX_ONE = "in what the child runs: `with gradscope.record(path_of_its_own): …`"
WHY_ODD = "the file was changed after it was recorded, or was written by another version"
WHY_UNSEEN = "this version of gradscope cannot look there, or more came than it keeps"
FIX_UNSEEN = "nothing to mend in the program; a finding that needs what is named may be missing"
FIX_ODD = "nothing that this version shows is missing; to see everything, use a newer one"


@rule("GS101", "incomplete-trace", needs="graph")
def incomplete_trace(trace: Trace) -> Iterator[Found]:
    """Part of the run is not in the trace, so that silence about it means nothing.

    A program that was killed, or a budget that was used up, leaves a trace that ends early or
    has holes. Everything in it is true, but what is missing may be what you are looking for.

    Bad:
        gradscope trace --max-events 1000 train.py

    Good:
        gradscope trace --steps 3 train.py
    """
    for note in trace.notes:
        cut = trace.truncated and note.startswith("truncated:")
        dropped = note.startswith("dropped:")
        unseen = note.startswith(UNSEEN)
        why, fix = WHY_ODD, FIX_ODD
        if cut or dropped:
            why, fix = (WHY_CUT, FIX_CUT) if cut else (WHY_DROPPED, FIX_DROPPED)
        elif unseen:
            why, fix = WHY_UNSEEN, FIX_UNSEEN
        what = "The trace is not whole:" if cut or dropped else "The file is"
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
            message=f"The trace is of one process: {elsewhere}",
            site=Site(),
            evidence=(),
            why=WHY_ONE,
            fix=FIX_ONE,
            severity=Severity.NOTE,
        )
