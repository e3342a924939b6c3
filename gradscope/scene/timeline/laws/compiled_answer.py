"""The answer of `gradscope law compiled`: a run with compilation, and one without."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.identity.sites import at
from gradscope.analysis.likeness.laws.compilation import CompiledDiffers, CompiledRun
from gradscope.scene.answers.answer import Answer, Topic, filled
from gradscope.scene.readable import plural
from gradscope.scene.timeline.laws.accumulate_answer import (
    MOST,
    OTHER_START,
    gradient_lines,
    in_words,
)

RUNS = "eager", "compiled"
NAMES = {"loss": "the loss", "gradients": "gradients", "parameters": "updates of parameters"}


BACKENDS = {
    "eager": "the run also differs with backend='eager', which only captures: the program does "
    "something else while it is compiled",
    "aot_eager": "the run also differs with backend='aot_eager', and not with 'eager': the forward "
    "and backward that are made of the graph differ",
    "": "the run does not differ with the backends 'eager' and 'aot_eager': the code that its own "
    "backend makes (inductor, by default) computes something else",
}


def compiled_answer(found: CompiledRun, backend: str | None = None) -> Answer:
    """The answer about a compiled run, and the same one without compilation.

    `backend`: the simplest one with which the run differs; "": only with its own; None: not tried.
    """
    first = found.first
    return Answer(
        _title(found),
        facts=tuple(_facts(first)) if first is not None else (),
        sections=filled(
            Topic("why", tuple(_why(first, backend)) if first is not None else ()),
            Topic("gradients", tuple(gradient_lines(first.pairs, RUNS)) if first else ()),
            Topic("compared", tuple(_compared(found)) if found.steps else ()),
        ),
        notes=(OTHER_START,) if found.other_start else (SAME_RANDOM,) if found.steps else (),
        data=found,
    )


SAME_RANDOM = (
    "in both runs the seeds of Python and NumPy are held equal, and compiled code draws random "
    "numbers as without compilation (torch._inductor.config.fallback_random)"
)


def _title(found: CompiledRun) -> str:
    if not found.compilations:
        return "nothing to compare: the program compiles nothing with torch.compile"
    if found.other_start:
        return f"cannot be compared: {found.other_start} is not the same before the first step"
    if not found.steps:
        return "nothing to compare: no step of an optimizer was recorded"
    if found.first is None:
        return f"compiled and eager runs compute the same, in {plural(found.steps, 'step')}"
    where = f"step {found.first.step}"
    if found.first.op and found.first.what != "loss":
        where += f", {found.first.op}{at(found.first.site)}"
    return f"compiled and eager runs differ, first in {NAMES[found.first.what]} of {where}"


def _facts(first: CompiledDiffers) -> Iterator[tuple[str, str]]:
    for name, size in zip(RUNS, first.sizes, strict=True):
        yield name, f"{'norm ' if first.what != 'loss' else ''}{size:.6g}"


def _why(first: CompiledDiffers, backend: str | None) -> Iterator[str]:
    for each in first.only[:MOST]:
        runs = "only in the compiled run" if each.compiled else "only without compilation"
        yield f"{each.op}{at(each.site)} runs {runs}: {each.site.text}"
    if backend is not None:
        yield BACKENDS[backend]
    elif not first.only:
        yield "not found: the lines of all operations are the same in both runs"


def _compared(found: CompiledRun) -> Iterator[str]:
    breaks = f" and {plural(found.breaks, 'graph break')}" if found.breaks else ""
    yield (
        f"{plural(found.steps, 'step')} with {plural(found.compilations, 'compilation')}{breaks}: "
        "losses, and how far parameters move"
    )
    yield f"{plural(found.gradients, 'gradient')}, before clipping: min, max, mean and norm"
    if found.small:
        yield f"{plural(found.small, 'gradient')} too small to be compared"
    yield in_words(found.precision)
