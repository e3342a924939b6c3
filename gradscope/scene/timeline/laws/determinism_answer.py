"""The answer of `gradscope law determinism`: the first difference of two runs, and its cause."""

from __future__ import annotations

from dataclasses import dataclass

from gradscope.analysis.identity.sites import at
from gradscope.analysis.likeness.laws.determinism import Determinism, Parting
from gradscope.scene.answers.answer import Answer, Topic, filled
from gradscope.scene.readable import plural
from gradscope.trace.schema import NONE


@dataclass(frozen=True, slots=True)
class LawCause:
    """Why two runs differed, as further runs showed."""

    words: str  # "" if none of what was tried is the cause
    advice: str
    lines: tuple[str, ...]  # calls of it, as in "numpy.random.randn at train.py:8"
    tried: tuple[str, ...]
    rest: Parting | None  # what still differs, later, with it held equal


def law_answer(found: Determinism, codes: tuple[int, int], cause: LawCause | None) -> Answer:
    """The answer about two runs of a program, which should do the same."""
    first = found.first
    title = _same(found) if first is None else _differs(first)
    return Answer(
        title,
        facts=tuple(_facts(first, cause)) if first is not None else (),
        sections=filled(
            Topic("why", tuple(_why(cause)) if cause is not None else ()),
            Topic("compared" if first is None else "compared up to there", tuple(_compared(found))),
        ),
        notes=tuple(_notes(found, codes)),
        data=(found, cause),
    )


def _same(found: Determinism) -> str:
    if not found.calls and not found.values:
        return "nothing was recorded that could be compared"
    return f"no difference in {plural(found.steps[0], 'step')}"


def _differs(first: Parting) -> str:
    step = f" of step {first.step}" if first.step != NONE else ""
    module = f" in {first.module}" if first.module else ""
    return f"two runs differ, first in {first.what}{module}{step}{at(first.site)}"


def _facts(first: Parting, cause: LawCause | None) -> list[tuple[str, str]]:
    facts = [("first run", first.one), ("second run", first.other)]
    if first.site.text:
        facts.append(("line", first.site.text))
    if first.other_site.place != first.site.place:
        facts.append(("second run's line", f"{first.other_site}: {first.other_site.text}"))
    if first.made or first.unknown:
        said = [f"{first.made} compared and the same"] * bool(first.made)
        said += [f"not compared: {', '.join(first.unknown)}"] * bool(first.unknown)
        facts.append(("inputs", "; ".join(said)))
    if first.known and not (cause and cause.words):
        facts.append(("known", first.known))
    return facts


def _why(cause: LawCause) -> list[str]:
    tried = ", ".join(cause.tried)
    if not cause.words:
        return [
            f"not found: the runs differ in the same place with each of these held equal: {tried}",
            "files that the program writes and reads, devices and child processes were not held",
        ]
    lines = [f"{cause.words}: with that held equal, runs do not differ there"]
    lines += list(cause.lines[:LINES])
    lines.append(cause.advice)
    if cause.rest is not None:
        lines.append(f"with that held equal, they differ later: {_differs(cause.rest)}")
    return lines


LINES = 5


def _compared(found: Determinism) -> list[str]:
    statistics = "zeros, NaN, Inf, min, max, mean, rms and norm, to the last bit"
    lines = [
        f"{plural(found.calls, 'call')}: names, shapes, modules and lines, in order",
        f"{plural(found.values, 'value')} of calls, gradients and leaves: {statistics}",
        f"{plural(found.hashes, 'parameter')} after steps: hashes of all bits",
    ]
    if found.apart > 1:
        lines.append(f"later: {found.apart - 1:,} more differ, which may follow from the first")
    return lines


def _notes(found: Determinism, codes: tuple[int, int]) -> list[str]:
    notes = []
    if codes[0] != codes[1]:
        notes.append(f"the first run ended with {codes[0]}, the second with {codes[1]}")
    elif codes[0]:
        notes.append(f"both runs ended with {codes[0]}")
    if found.alone:
        notes.append(f"{plural(found.alone, 'value')} that only one run has: not compared")
    if found.recorded < min(found.steps):
        steps = plural(found.steps[0], "step")
        notes.append(f"calls and values were recorded in {found.recorded} of {steps}")
    if not found.hashes and found.first is None:
        notes.append("no parameter was measured after a step")
    notes.append(
        "not compared: results of calls without a node on PyTorch, buffers, elements in another "
        "order whose statistics are the same, what the program prints and writes"
    )
    return notes
