"""The law of compilation: a compiled program computes what it computes without compilation."""

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
    compared,
    differs,
    other_start,
    precision,
)
from gradscope.trace.schema import (
    NONE,
    Compilation,
    GraphBreak,
    Op,
    ParameterSummary,
    Phase,
    RegionOp,
    StepSummary,
)
from gradscope.trace.trace import Trace

DIGITS = 1e-4
"""Relative differences that summaries of steps show: they have few digits."""


@dataclass(frozen=True, slots=True)
class OnlyOnce:
    """A line that runs in one of two runs only."""

    op: str
    site: Site
    compiled: bool  # in the compiled one


@dataclass(frozen=True, slots=True)
class CompiledDiffers:
    """The first difference of a compiled run."""

    step: int
    what: str  # loss, gradients, parameters
    sizes: tuple[float, float]  # without compilation, and with it: losses, or relative updates
    pairs: tuple[GradientPair, ...]  # gradients that differ, in the order in which they arrived
    op: str  # of the first of them: the call that used the parameter, without compilation
    site: Site
    only: tuple[OnlyOnce, ...]


@dataclass(frozen=True, slots=True)
class CompiledRun:
    """A compiled run, and the same one without compilation."""

    compilations: int
    breaks: int
    steps: int
    gradients: int
    small: int  # gradients that are too small to be compared
    precision: Precision
    other_start: str  # a parameter that is not the same before the first step
    first: CompiledDiffers | None

    @property
    def is_broken(self) -> bool:
        """Whether the runs differ, or cannot be compared."""
        return self.first is not None or bool(self.other_start)


def compiled_run(eager: Trace, compiled: Trace) -> CompiledRun:
    """Compare the first steps of a run without compilation and with it."""
    runs = SteppedGradients(eager), SteppedGradients(compiled)
    counts = len(compiled.table(Compilation)), len(compiled.table(GraphBreak))
    precise = precision(eager, compiled)
    other = other_start(*runs) if counts[0] else ""
    if other or not counts[0]:
        return CompiledRun(*counts, 0, 0, 0, precise, other, None)
    find = partial(_first, (eager, compiled))
    steps, gradients, small, first = compared(runs, precise.tolerance, find)
    return CompiledRun(*counts, steps, gradients, small, precise, "", first)


def _first(
    traces: tuple[Trace, Trace],
    number: int,
    sides: Sides,
    pairs: tuple[GradientPair, ...],
    tolerance: float,
) -> CompiledDiffers | None:
    """The first difference in a step: of the loss, of gradients or of parameters after it."""
    steps = sides[0].act.step, sides[1].act.step
    losses = _loss(traces[0], steps[0]), _loss(traces[1], steps[1])
    apart = sorted(
        (pair for pair in pairs if differs(pair, tolerance)),
        key=lambda pair: _arrived(sides[0], pair),
    )
    op, site = _use(traces[0], sides[0].tensors[apart[0].place]) if apart else ("", Site())
    updates = _updates(traces, sides, [pair.place for pair in pairs if not pair.small])
    if _is_apart(*losses, max(tolerance, DIGITS)):
        what, sizes = "loss", losses
    elif apart:
        what, sizes = "gradients", apart[0].norms
    elif _is_apart(*updates, max(tolerance, DIGITS) * MOVED):
        what, sizes = "parameters", updates
    else:
        return None
    only = tuple(_only_once(traces, steps))
    return CompiledDiffers(number, what, sizes, tuple(apart), op, site, only)


MOVED = 30
"""How much larger differences of updates may be: optimizers divide by small numbers."""


def _is_apart(a: float, b: float, tolerance: float) -> bool:
    """Whether two sizes differ; one that was not measured does not."""
    return abs(a - b) > tolerance * max(abs(a), abs(b))


def _loss(trace: Trace, step: int) -> float:
    return next((row.loss for row in trace.rows(StepSummary) if row.step == step), math.nan)


def _arrived(side: StepGradients, pair: GradientPair) -> float:
    """When a gradient arrived."""
    value = side.values.get(side.tensors[pair.place])
    return value.t if value is not None else math.inf


def _updates(traces: tuple[Trace, Trace], sides: Sides, places: list[int]) -> tuple[float, float]:
    """How far a step moved some parameters of its optimizer, in each run; NaN: not measured."""
    found = []
    for trace, side in zip(traces, sides, strict=True):
        tensors = {side.tensors[place] for place in places}
        rows = [row for row in trace.rows(ParameterSummary) if row.step == side.act.step]
        moved = [row.update * row.weight for row in rows if row.tensor in tensors]
        found.append(math.hypot(*moved) if moved else math.nan)
    return found[0], found[1]


def _use(trace: Trace, tensor: int) -> tuple[str, Site]:
    """The call that used a parameter, and its line."""
    for op in trace.rows(Op):
        if tensor in op.inputs and op.node != NONE:
            return op.name, own_site(trace, op.stack)
    return "", Site()


def _only_once(traces: tuple[Trace, Trace], steps: tuple[int, int]) -> Iterator[OnlyOnce]:
    """Lines of compiled operations that do not run without compilation, and the reverse."""
    sites = [
        {
            own_site(trace, op.stack): op.name
            for op in trace.rows(Op)
            if op.step == step and op.node != NONE
        }
        for trace, step in zip(traces, steps, strict=True)
    ]
    inside: dict[Site, str] = {}
    for row in traces[1].rows(RegionOp):
        if row.phase == Phase.FORWARD and row.stack != NONE:
            inside.setdefault(own_site(traces[1], row.stack), row.op)
    for site, op in inside.items():
        if site not in sites[0]:
            yield OnlyOnce(op, site, compiled=True)
    files = {site.file for site in inside}
    for site, op in sites[0].items():
        if site.file in files and site not in inside and site not in sites[1]:
            yield OnlyOnce(op, site, compiled=False)
