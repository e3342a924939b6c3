"""The law of resuming: a run that goes on from a checkpoint does what the whole run did."""

from __future__ import annotations

from gradscope.analysis.likeness.laws.resume import resumed
from gradscope.commands.debugging.laws.runs import Verdict
from gradscope.scene.timeline.laws.resume_answer import resume_answer
from gradscope.trace.trace import Trace


def of_traces(whole: Trace, rest: Trace) -> Verdict:
    """Compare a whole run with one that was resumed."""
    found = resumed(whole, rest)
    return Verdict(resume_answer(found), broken=bool(found.lost))
