"""The law of accumulation: the gradients of parts of a batch add to that of the whole batch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from gradscope.analysis.identity.sites import Site, own_site
from gradscope.analysis.likeness.laws.gradients import (
    GradientPair,
    Precision,
    Sides,
    StepGradients,
    SteppedGradients,
    common_factor,
    compared,
    differs,
    other_start,
    precision,
)
from gradscope.analysis.likeness.laws.nondeterministic import DRAWS, known
from gradscope.analysis.program.acts import Acts
from gradscope.trace.schema import (
    NONE,
    BatchAct,
    GradSetAct,
    GradZeroedAct,
    Module,
    Op,
    RanAct,
    Tensor,
    ZeroGradAct,
)
from gradscope.trace.table import Table
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class PartsCause:
    """Why gradients of parts differ from that of the whole batch."""

    words: str
    advice: str
    site: Site
    seen: bool  # it was recorded; if not, it is what is left


@dataclass(frozen=True, slots=True)
class PartsDiffer:
    """The first step whose gradients are not the same."""

    step: int  # its place among all steps of optimizers
    site: Site  # the last backward before the step, in parts
    backwards: tuple[int, int]  # before the step, in each run
    factor: float  # of all gradients; NaN: it is not the same for each parameter
    pairs: tuple[GradientPair, ...]  # those that differ
    causes: tuple[PartsCause, ...]


@dataclass(frozen=True, slots=True)
class PartsOfBatch:
    """A run with whole batches and one with parts, compared."""

    steps: int
    gradients: int  # that were compared
    small: int  # gradients that are too small to be compared
    precision: Precision
    other_start: str  # a parameter that is not the same before the first step; "": all are
    first: PartsDiffer | None

    @property
    def is_broken(self) -> bool:
        """Whether gradients differ, or cannot be compared."""
        return self.first is not None or bool(self.other_start)


def accumulation(whole: Trace, parts: Trace) -> PartsOfBatch:
    """Compare the gradients of the first steps of a run with whole batches and one with parts."""
    runs = SteppedGradients(whole), SteppedGradients(parts)
    precise = precision(whole, parts)
    other = other_start(*runs)
    if other:
        return PartsOfBatch(0, 0, 0, precise, other, None)
    find = partial(_differ, (whole, parts))
    steps, gradients, small, first = compared(runs, precise.tolerance, find)
    return PartsOfBatch(steps, gradients, small, precise, "", first)


def _differ(
    traces: tuple[Trace, Trace],
    number: int,
    sides: Sides,
    pairs: tuple[GradientPair, ...],
    tolerance: float,
) -> PartsDiffer | None:
    apart = tuple(pair for pair in pairs if differs(pair, tolerance))
    if not apart:
        return None
    counts = len(sides[0].tasks), len(sides[1].tasks)
    factor = common_factor(pairs, tolerance)
    tasks = sides[1].tasks or sides[0].tasks
    site = own_site(traces[1], tasks[-1].stack) if tasks else Site()
    causes = tuple(_causes(traces, sides, factor, tolerance))
    return PartsDiffer(number, site, counts, factor, apart, causes)


def _causes(
    traces: tuple[Trace, Trace],
    sides: Sides,
    factor: float,
    tolerance: float,
) -> Iterator[PartsCause]:
    """Why the gradients differ, the surest cause first."""
    before = list(_of_the_loop(traces, sides))
    if before:
        yield from before
        return
    if not math.isnan(factor):
        yield _of_a_factor(sides, factor, 2 * tolerance)
        return
    found = [*_of_modules(traces[1], sides[1]), *_unequal_parts(traces, sides)]
    yield from found or [
        PartsCause(
            "the parts have other weights than in the whole batch, as of a mean over anything else "
            "than rows (tokens that are not masked, say)",
            "add sums over the parts, and divide by the number of the whole batch",
            Site(),
            seen=False,
        )
    ]


def _of_the_loop(traces: tuple[Trace, Trace], sides: Sides) -> Iterator[PartsCause]:
    """Parts that are not added, or are parts of another batch."""
    counts = [len(side.tasks) for side in sides]
    acts = traces[1].once(Acts)
    if counts[1] <= counts[0]:
        yield PartsCause(
            f"the optimizer steps after {counts[1]} backward, as in the run with the whole batch",
            "step only after the last part",
            acts.site(sides[1].act),
            seen=True,
        )
        return
    begin, end = sides[1].tasks[0].begin, sides[1].tasks[-1].begin
    for act in acts.of(ZeroGradAct, GradZeroedAct, GradSetAct):
        if begin < act.t < end:
            yield PartsCause(
                "gradients of earlier parts are cleared",
                "clear gradients only after the step of the optimizer",
                acts.site(act),
                seen=True,
            )
            return
    whole, parts = _rows(traces, sides)
    samples = [_samples(trace, side) for trace, side in zip(traces, sides, strict=True)]
    if sum(parts) < sum(whole):
        said = f"the whole batch has {sum(whole)} rows, its parts have {sum(parts)}"
    elif all(samples) and samples[0] != samples[1]:
        said = "the parts have other samples than the whole batch"
    else:
        return
    yield PartsCause(
        said, "choose arguments with which both runs use the same data", Site(), seen=True
    )


def _of_a_factor(sides: Sides, factor: float, tolerance: float) -> PartsCause:
    """What it means that all gradients have one factor."""
    parts = len(sides[1].tasks) / len(sides[0].tasks)
    if abs(factor - parts) <= tolerance * parts:
        return PartsCause(
            f"{parts:g} parts are added, and the loss of each is a mean over the part",
            f"divide the loss by {parts:g}",
            Site(),
            seen=True,
        )
    if abs(factor * parts - 1) <= tolerance:
        return PartsCause(
            f"the gradients are divided by {parts:g} once too often: the loss of a part is "
            "divided twice, or is a sum",
            f"divide by {parts:g} once if the loss is a mean, and not at all if it is a sum",
            Site(),
            seen=True,
        )
    return PartsCause(
        f"the losses of the {parts:g} parts do not add to that of the whole batch",
        "weigh each part by its share of the whole batch",
        Site(),
        seen=True,
    )


def _of_modules(trace: Trace, side: StepGradients) -> Iterator[PartsCause]:
    """What of the model depends on the rows that it is called with."""
    table, names = trace.table(Module), dict[str, None]()
    for act in trace.once(Acts).of(RanAct):
        if act.facts.training and table.has(act.module):
            row = table.row(act.module)
            if "BatchNorm" in row.type:
                names[f"{row.path} ({row.type})"] = None
    if names:
        yield PartsCause(
            f"mean and variance are those of a part: {', '.join(names)}",
            "use GroupNorm or LayerNorm, or freeze these in eval mode",
            Site(),
            seen=True,
        )
    for op in (op for ops in _forwards(trace, side) for op in ops):
        if known(op.name, _type(table, op.module)) == DRAWS:
            yield PartsCause(
                f"each part draws other random numbers ({op.name})",
                "compare without dropout: its masks cannot be the same",
                own_site(trace, op.stack),
                seen=True,
            )
            return


def _type(table: Table[Module], module: int) -> str:
    return f"({table.row(module).type})" if table.has(module) else ""


def _unequal_parts(traces: tuple[Trace, Trace], sides: Sides) -> Iterator[PartsCause]:
    _, rows = _rows(traces, sides)
    if len(set(rows)) > 1:
        yield PartsCause(
            f"the parts have {', '.join(map(str, rows))} rows, and the mean over each has the same "
            "weight",
            "multiply the loss of a part by its share of the rows",
            Site(),
            seen=True,
        )


def _rows(traces: tuple[Trace, Trace], sides: Sides) -> tuple[list[int], list[int]]:
    """How many rows each forward has: of the first call whose results are not equally long."""
    whole, parts = (
        [[(op.name, _length(trace, op)) for op in ops] for ops in _forwards(trace, side)]
        for trace, side in zip(traces, sides, strict=True)
    )
    for calls in zip(*whole, *parts, strict=False):
        if len({name for name, _ in calls}) > 1:
            break
        rows = [many for _, many in calls]
        if len(set(rows)) > 1:
            return rows[: len(whole)], rows[len(whole) :]
    return [], []


def _length(trace: Trace, op: Op) -> int:
    table = trace.table(Tensor)
    shapes = [table.row(tensor).shape for tensor in op.outputs if table.has(tensor)]
    return shapes[0][0] if shapes and shapes[0] else 0


def _forwards(trace: Trace, side: StepGradients) -> list[list[Op]]:
    """The calls with a node before each backward of a step."""
    begins = [side.since, *(task.end for task in side.tasks)]
    ops = sorted((op for op in trace.rows(Op) if op.node != NONE), key=lambda op: op.begin)
    return [
        [op for op in ops if begin < op.begin < task.begin]
        for begin, task in zip(begins, side.tasks, strict=False)
    ]


def _samples(trace: Trace, side: StepGradients) -> list[int]:
    """Which samples of the data set the batches have, sorted."""
    acts = trace.once(Acts).of(BatchAct)
    of_step = [act for act in acts if act.step == side.act.step != NONE]
    return sorted(sample for act in of_step for sample in act.facts.samples)
