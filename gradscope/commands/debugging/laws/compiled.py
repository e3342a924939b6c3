"""The law of compilation: `torch.compile` does not change what a program computes."""

from __future__ import annotations

from gradscope.analysis.likeness.laws.compilation import compiled_run
from gradscope.commands.debugging.laws.held import BACKENDS, COMPILED, EAGER
from gradscope.commands.debugging.laws.runs import LawArguments, LawVerdict, Program, run, say
from gradscope.commands.options.output import load
from gradscope.scene.timeline.laws.compiled_answer import compiled_answer
from gradscope.trace.schema import Compilation
from gradscope.trace.trace import Trace


def of_program(program: Program, arguments: LawArguments) -> LawVerdict:
    """Run a program as it is, and if it compiles anything, again with compilation switched off."""
    say("run with compilation")
    compiled = load(run(program, 1, COMPILED).trace)
    if not len(compiled.table(Compilation)):
        return of_traces(compiled, compiled)
    say("run with compilation switched off")
    eager = load(run(program, 2, EAGER).trace)
    found = compiled_run(eager, compiled)
    finds = found.first is not None and arguments.cause
    backend = _backend(program, eager) if finds else None
    return LawVerdict(compiled_answer(found, backend), broken=found.is_broken)


def _backend(program: Program, eager: Trace) -> str:
    """The first backend with which a run differs from the one without compilation; "": none."""
    for held in BACKENDS:
        say(f"run with {held.name}")
        if compiled_run(eager, load(run(program, 3, held).trace)).first is not None:
            return held.name.removeprefix("backend-")
    return ""


def of_traces(eager: Trace, compiled: Trace) -> LawVerdict:
    """Compare a run without compilation, and one with it."""
    found = compiled_run(eager, compiled)
    return LawVerdict(compiled_answer(found), broken=found.is_broken)
