"""The law of accumulation: parts of a batch have the gradients of the whole batch."""

from __future__ import annotations

from gradscope.analysis.likeness.laws.accumulate import accumulation
from gradscope.commands.debugging.laws.held import SEEDS
from gradscope.commands.debugging.laws.runs import LawArguments, LawVerdict, Program, run_with
from gradscope.commands.options.output import load
from gradscope.scene.timeline.laws.accumulate_answer import accumulate_answer
from gradscope.trace.trace import Trace


def of_program(program: Program, arguments: LawArguments) -> LawVerdict:
    """Run a program with whole batches, and with parts that are accumulated."""
    whole, parts = arguments.required("whole", "parts")
    runs = run_with(program, 1, whole, SEEDS), run_with(program, 2, parts, SEEDS)
    return of_traces(load(runs[0].trace), load(runs[1].trace))


def of_traces(whole: Trace, parts: Trace) -> LawVerdict:
    """Compare a run with whole batches, and one with parts."""
    found = accumulation(whole, parts)
    return LawVerdict(accumulate_answer(found), broken=found.is_broken)
