"""Rules about the recording itself: what no other rule can see."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.findings import Certainty, Severity
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.sites import Site
from gradscope.trace.run import Trace


@rule("GS101", "incomplete-trace", Severity.WARNING)
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
        cut = note.startswith("truncated")
        yield Found(
            message=f"The trace is not whole: {note}",
            site=Site(),
            evidence=(),
            why=(
                "the program or its disk stopped before the recording was closed"
                if cut
                else "the recorder kept to its budget, or part of the file could not be read"
            ),
            fix=(
                "let the program end, or record fewer steps, and record again"
                if cut
                else "raise --max-events or --max-bytes, or limit the recording to fewer steps"
            ),
            certainty=Certainty.CERTAIN,
        )
