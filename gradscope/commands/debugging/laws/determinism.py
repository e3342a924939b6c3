"""The law of determinism: two runs of a program do the same."""

from __future__ import annotations

from pathlib import Path

from gradscope.analysis.likeness.laws.determinism import Determinism, determinism
from gradscope.commands.debugging.laws.held import EVERY, Held
from gradscope.commands.debugging.laws.runs import LawArguments, LawVerdict, Program, Run, run, say
from gradscope.commands.options.output import load
from gradscope.scene.timeline.laws.determinism_answer import LawCause, law_answer
from gradscope.trace.trace import Trace


def of_program(program: Program, arguments: LawArguments) -> LawVerdict:
    """Run a program twice; if the runs differ, again with one thing after another held equal."""
    found, runs, why = _determinism(program, looks=arguments.cause)
    codes = runs[0].code, runs[1].code
    return LawVerdict(law_answer(found, codes, why), broken=_is_broken(found, codes))


def of_traces(one: Trace, other: Trace) -> LawVerdict:
    """Compare two recorded runs."""
    found = determinism(one, other)
    codes = int(one.meta.get("exit_code", 0)), int(other.meta.get("exit_code", 0))
    return LawVerdict(law_answer(found, codes, None), broken=_is_broken(found, codes))


def _is_broken(found: Determinism, codes: tuple[int, int]) -> bool:
    """Whether two runs differ in what they did, or in how they ended."""
    return found.first is not None or codes[0] != codes[1]


def _determinism(
    program: Program, *, looks: bool
) -> tuple[Determinism, tuple[Run, Run], LawCause | None]:
    """The comparison of two runs, and the cause of their difference."""
    say("first run")
    one = run(program, 1)
    say("second run")
    runs = one, run(program, 2)
    found = _compared(runs)
    if found.first is None or not looks:
        return found, runs, None
    return found, runs, _cause(program, found)


def _cause(program: Program, found: Determinism) -> LawCause:
    """What must be held equal for the difference to go, found by trying."""
    tried = []
    for held in EVERY:
        if not held.works:
            continue
        tried.append(held.name)
        runs = _held_runs(program, held)
        pairs = [_compared((runs[0], other)) for other in runs[1:]]
        if pairs and all(_is_later(each, found) for each in pairs):
            lines = tuple(dict.fromkeys(_lines(runs[0])))
            return LawCause(held.cause, held.advice, lines, tuple(tried), pairs[0].first)
    return LawCause("", "", (), tuple(tried), None)


def _held_runs(program: Program, held: Held) -> list[Run]:
    """Runs with one thing held equal; only one, if the program does not use that thing.

    Where its use cannot be noted there is a third run: two may be the same by chance.
    """
    notes = held.begin is not None
    runs: list[Run] = []
    for number in (1, 2) if notes else (1, 2, 3):
        say(f"run {number} with {held.name} held equal")
        runs.append(run(program, number, held))
        if notes and not runs[0].noted:
            break
    return runs


def _is_later(held: Determinism, found: Determinism) -> bool:
    """Whether runs no longer differ where they did."""
    if held.first is None or found.first is None:
        return held.first is None
    one, other = (
        (each.what, each.module, each.site.place, each.step) for each in (held.first, found.first)
    )
    return one != other and held.place > found.place


def _lines(run: Run) -> list[str]:
    here = str(Path.cwd())
    return [f"{what} at {place.removeprefix(f'{here}/')}" for what, place in run.noted]


def _compared(runs: tuple[Run, Run]) -> Determinism:
    return determinism(load(runs[0].trace), load(runs[1].trace))
