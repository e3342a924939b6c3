"""The law of resuming: a run that goes on from a checkpoint does what the whole run did."""

from __future__ import annotations

from gradscope.analysis.likeness.laws.resume import resumed
from gradscope.commands.debugging.laws.held import SEEDS
from gradscope.commands.debugging.laws.runs import LawArguments, LawVerdict, Program, run_with
from gradscope.commands.options.output import load
from gradscope.scene.timeline.laws.resume_answer import resume_answer
from gradscope.trace.trace import Trace


def of_program(program: Program, arguments: LawArguments) -> LawVerdict:
    """Run a program to its end; then until it saves a checkpoint, and on from there."""
    save, resume = arguments.required("save", "resume")
    whole = load(run_with(program, 1, arguments.whole or "", SEEDS).trace)
    run_with(program, 2, save, SEEDS)
    return of_traces(whole, load(run_with(program, 3, resume, SEEDS).trace))


def of_traces(whole: Trace, rest: Trace) -> LawVerdict:
    """Compare a whole run with one that was resumed."""
    found = resumed(whole, rest)
    return LawVerdict(resume_answer(found), broken=bool(found.lost))
