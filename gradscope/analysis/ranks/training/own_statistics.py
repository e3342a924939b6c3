"""Running statistics of batch norm that differ among ranks, and are used on several of them.

DistributedDataParallel(broadcast_buffers=False) leaves each rank its own. They differ as far as the
batches do; in training each rank uses those of its batch, in evaluation the running ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import sqrt

import numpy as np

from gradscope.analysis.identity.sites import Site, own_site
from gradscope.analysis.identity.steps import step_numbers
from gradscope.analysis.program.acts import Acts
from gradscope.analysis.ranks.merging.one_rank import RankPart, parts
from gradscope.trace.schema import (
    NONE,
    Collective,
    LoadedAct,
    Module,
    Place,
    ProcessGroup,
    RanAct,
    Replicated,
    Span,
    Tensor,
    Value,
)
from gradscope.trace.trace import Trace

MUCH = 0.05
"""Smallest difference of the norms of variances that is reported, relative to the largest."""

FEWEST = 2
"""Least number of steps of training in which they were measured."""

BATCH_NORM, OVER_RANKS = "BatchNorm", "SyncBatchNorm"


@dataclass(frozen=True, slots=True)
class OwnStatistics:
    """A batch norm with other running statistics on each rank."""

    part: RankPart  # of the first rank
    made_at: Site  # where DistributedDataParallel was made
    path: str  # of the module
    step: int  # the number of the step whose statistics these are
    norms: Mapping[int, float]  # of the running variances, by rank
    evaluated: tuple[int, ...]  # ranks that ran it in evaluation mode
    evaluated_at: Site  # the first of them; nowhere if there is none
    many: int  # number of such modules of the model


@dataclass(frozen=True, slots=True)
class _Norm:
    """A batch norm of one rank."""

    part: RankPart
    row: Replicated
    path: str
    measured: Mapping[int, tuple[float, float]]  # norms of means and variances, by step
    evaluated_at: Site | None
    exchanges: bool  # whether ranks may have exchanged statistics before it was evaluated


def own_statistics(trace: Trace) -> tuple[OwnStatistics, ...]:
    """The first batch norm of each model; none in the trace of one process."""
    if "ranks" not in trace.meta:
        return ()
    together: dict[tuple[str, tuple[int, ...], int], dict[str, list[_Norm]]] = {}
    for part in trace.once(parts):
        groups = {row.id: row for row in part.trace.rows(ProcessGroup)}
        for number, row in enumerate(part.trace.rows(Replicated)):
            if row.broadcasts == 0 and row.group in groups:
                key = groups[row.group].name, groups[row.group].members, number
                for norm in _norms(part, row):
                    together.setdefault(key, {}).setdefault(norm.path, []).append(norm)
    found = (_first(key[1], modules) for key, modules in together.items())
    return tuple(each for each in found if each is not None)


def _norms(part: RankPart, row: Replicated) -> Iterator[_Norm]:
    modules = list(part.trace.rows(Module))
    paths = Counter(module.path for module in modules)
    chosen = [
        module
        for module in modules
        if BATCH_NORM in module.type and module.type != OVER_RANKS
        if module.parameters and {*module.parameters} <= {*row.parameters}
        if paths[module.path] == 1
    ]
    acts = part.trace.once(Acts)
    for module in chosen:
        runs = [act for act in acts.of(RanAct) if act.module == module.id]
        evaluations = [act for act in runs if not act.facts.training]
        first = min(evaluations, key=lambda act: act.t, default=None)
        until = first.t if first is not None else None
        measured, last = _measured(part.trace, module.path, until)
        if len(measured) >= FEWEST:
            site = acts.site(first) if first is not None else None
            exchanges = until is not None and _exchanges(part.trace, last, until)
            yield _Norm(part, row, module.path, measured, site, exchanges)


def _measured(
    trace: Trace, path: str, until: int | None
) -> tuple[dict[int, tuple[float, float]], int]:
    """The norms of running statistics by step, up to this time; when the last was measured."""
    numbers, values, tensors = step_numbers(trace), trace.table(Value), trace.table(Tensor)
    found: list[dict[int, float]] = []
    last = 0
    for name in ("running_mean", "running_var"):
        named = [text == f"{path}.{name}" for text in tensors.texts("name")]
        ids = tensors.array("id")[np.array(named, bool)]
        chosen = np.isin(values["tensor"], ids) & (values["place"] == Place.LEAF)
        if until is not None:
            chosen &= values["t"] < until
        rows = np.flatnonzero(chosen)
        steps = [numbers.get(step, NONE) for step in values["step"][rows].tolist()]
        found.append(dict(zip(steps, values["norm"][rows].tolist(), strict=True)))
        last = max(last, int(values["t"][rows].max(initial=0)))
    means, variances = found
    both = (means.keys() & variances.keys()) - {NONE}
    return {step: (means[step], variances[step]) for step in both}, last


def _exchanges(trace: Trace, since: int, until: int) -> bool:
    """Whether the program exchanged tensors, or loaded some, between these times."""
    acts, spans = trace.once(Acts), trace.table(Span)
    if any(since < act.t < until for act in acts.of(LoadedAct)):
        return True
    called = (row.span for row in trace.rows(Collective) if row.dtype and not row.caller)
    return any(
        since < spans["begin"][spans.index(span)] < until for span in called if spans.has(span)
    )


def _first(members: tuple[int, ...], modules: Mapping[str, list[_Norm]]) -> OwnStatistics | None:
    """The first module whose statistics differ."""
    apart = [each for norms in modules.values() if (each := _apart(members, norms)) is not None]
    if not apart:
        return None
    first, number, norms = apart[0]
    used = [norm for norm in first if norm.evaluated_at is not None and not norm.exchanges]
    return OwnStatistics(
        first[0].part,
        own_site(first[0].part.trace, first[0].row.stack),
        first[0].path,
        number,
        norms,
        tuple(norm.part.rank for norm in used),
        (used[0].evaluated_at if used else None) or Site(),
        len(apart),
    )


def _apart(
    members: tuple[int, ...], norms: list[_Norm]
) -> tuple[list[_Norm], int, dict[int, float]] | None:
    """The last step that all ranks measured, if they differ there."""
    if len(norms) < max(len(members), 2):
        return None
    common = set[int].intersection(*({*norm.measured} for norm in norms))
    if len(common) < FEWEST:
        return None
    last = max(common)
    means, variances = zip(*(norm.measured[last] for norm in norms), strict=True)
    largest = max(variances)
    wide = max(variances) - min(variances) > MUCH * largest
    far = max(means) - min(means) > 2 * MUCH * sqrt(largest)
    by_rank = {norm.part.rank: norm.measured[last][1] for norm in norms}
    return (norms, last, by_rank) if wide or far else None
