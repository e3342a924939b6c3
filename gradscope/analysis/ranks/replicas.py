"""Parameters that DistributedDataParallel keeps equal, compared across ranks at optimizer steps.

At each step that was measured, the norm of a parameter, and that of its gradient, must be the same
on all ranks: each rank has added the same sums to the same values. Norms have four digits, so small
differences are not seen. Steps are aligned by their number for each optimizer. Ranks that agree
again after a difference are averaged from time to time (local SGD): they differ on purpose.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gradscope.analysis.identity.sites import own_site
from gradscope.analysis.program.acts import Acts, Done, Optimizer
from gradscope.analysis.program.numbers import computed_losses
from gradscope.analysis.ranks.one_rank import RankPart, parts
from gradscope.trace.schema import NONE, Op, ProcessGroup, Replicated, StepAct, Tensor
from gradscope.trace.trace import Trace

FEWEST = 3
"""Number of different losses from which on it is no coincidence that ranks have the same."""

Group = tuple[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Drift:
    """The first step at which ranks have different values of a replicated parameter."""

    name: str  # of the parameter
    what: str  # "gradient" or "parameter"
    number: int  # of the step of the optimizer
    values: dict[int, float]  # the norm, by rank
    steps: dict[int, Done[StepAct]]  # by rank
    last: dict[int, Done[StepAct]]  # the steps before; empty if there are none
    tensors: dict[int, int]  # the parameter, by rank


@dataclass(frozen=True, slots=True)
class _Replica:
    """The replicated parameters of one rank, by optimizer."""

    rank: int
    names: dict[int, str]
    parameters: tuple[int, ...]  # in the same order on all ranks
    steps: tuple[Done[StepAct], ...]
    places: dict[int, int]  # by index in `parameters`, the index among those of the optimizer


@dataclass(frozen=True, slots=True)
class SameLosses:
    """Ranks whose backwards all began from the same values."""

    ranks: tuple[int, ...]
    many: int  # number of backwards
    op: int  # that computed the last loss of the first rank


def same_losses(trace: Trace) -> tuple[SameLosses, ...]:
    """Groups of replicas that computed the same losses, in at least FEWEST backwards."""
    if "ranks" not in trace.meta:
        return ()
    by_losses: dict[tuple[Group, tuple[float, ...]], list[tuple[int, int]]] = {}
    for part in trace.once(parts):
        losses = computed_losses(part.trace)
        values = tuple(loss for _, loss in losses)
        groups = {group for group, _ in _replicated(part.trace)}
        for group in groups if len({*values}) >= FEWEST else ():
            by_losses.setdefault((group, values), []).append((part.rank, losses[-1][0]))
    found = {
        tuple(rank for rank, _ in of): SameLosses(
            tuple(rank for rank, _ in of), len(values), of[0][1]
        )
        for (_, values), of in by_losses.items()
        if len(of) > 1
    }
    return tuple(found.values())


def drifts(trace: Trace) -> tuple[Drift, ...]:
    """The first difference for each optimizer, if ranks differ until the end."""
    if "ranks" not in trace.meta:
        return ()
    every = [found for part in trace.once(parts) for found in _replicas(part)]
    together: dict[tuple[Group, int, int], list[_Replica]] = {}
    for key, replica in every:
        together.setdefault(key, []).append(replica)
    found = (_first_drift(replicas) for replicas in together.values() if len(replicas) > 1)
    return tuple(each for each in found if each is not None)


def written_on_some(trace: Trace, drift: Drift) -> tuple[int, int] | None:
    """A rank that wrote the parameter before it differed at a line where others did not.

    The rank, and the stack of the write. None: no such write was recorded.
    """
    if drift.what != "parameter":
        return None
    calls = trace.table(Op)
    outputs, written = calls.ragged("outputs"), {}
    for rank, tensor in drift.tensors.items():
        of = np.unique(outputs.owners[outputs.values == tensor])
        begin = calls.array("begin")[of]
        since = drift.last[rank].t if drift.last else 0
        of = of[(begin > since) & (begin < drift.steps[rank].t)]
        stacks = calls.array("stack")[of].tolist()
        written[rank] = {own_site(trace, stack): stack for stack in stacks if stack != NONE}
    for rank, own in written.items():
        for site, stack in own.items():
            if any(site not in others for others in written.values()):
                return rank, stack
    return None


def _replicas(part: RankPart) -> list[tuple[tuple[Group, int, int], _Replica]]:
    """The replicated parameters of a rank, by group, number of the model and of the optimizer."""
    trace = part.trace
    names = {row.id: row.name for row in trace.rows(Tensor)}
    found = []
    for model, (group, parameters) in enumerate(_replicated(trace)):
        for number, optimizer in enumerate(trace.once(Acts).optimizers):
            places = _places(optimizer, parameters)
            if places:
                replica = _Replica(part.rank, names, parameters, optimizer.steps, places)
                found.append(((group, model, number), replica))
    return found


def _replicated(trace: Trace) -> list[tuple[Group, tuple[int, ...]]]:
    """The replicated parameters of a rank, and their groups."""
    groups = {row.id: (row.name, row.members) for row in trace.rows(ProcessGroup)}
    return [(groups.get(row.group, ("", ())), row.parameters) for row in trace.rows(Replicated)]


def _places(optimizer: Optimizer, parameters: tuple[int, ...]) -> dict[int, int]:
    places = {tensor: place for place, tensor in enumerate(optimizer.tensors)}
    return {at: places[tensor] for at, tensor in enumerate(parameters) if tensor in places}


def _first_drift(replicas: list[_Replica]) -> Drift | None:
    if len({frozenset(each.places) for each in replicas}) > 1:
        return None  # optimizers that divide the parameters among ranks
    found: Drift | None = None
    last: dict[int, Done[StepAct]] = {}
    for number, steps in enumerate(zip(*(each.steps for each in replicas), strict=False)):
        by_rank = {each.rank: step for each, step in zip(replicas, steps, strict=True)}
        now = _difference(replicas, by_rank, number, last)
        if now is None and found is not None and _is_measured(replicas, by_rank):
            return None
        found = found or now
        last = by_rank
    return found


def _is_measured(replicas: list[_Replica], steps: Mapping[int, Done[StepAct]]) -> bool:
    return all(len(steps[each.rank].facts.size) > max(each.places.values()) for each in replicas)


def _difference(
    replicas: list[_Replica],
    steps: dict[int, Done[StepAct]],
    number: int,
    last: dict[int, Done[StepAct]],
) -> Drift | None:
    """What differs first at a step: parameters have their values before it."""
    old = any(
        steps[rank].facts.grad == before.facts.grad for rank, before in last.items()
    )  # a rank without more batches steps with the others, with the gradient that it has
    for what, column in (("parameter", "size"), *[("gradient", "grad")][old:]):
        for at in replicas[0].places:
            values = {}
            for replica in replicas:
                cells, place = getattr(steps[replica.rank].facts, column), replica.places[at]
                values[replica.rank] = cells[place] if place < len(cells) else math.nan
            known = [value for value in values.values() if not math.isnan(value)]
            if len(known) == len(replicas) and len({*known}) > 1:
                first = replicas[0]
                return Drift(
                    first.names.get(first.parameters[at], ""),
                    what,
                    number,
                    values,
                    steps,
                    last,
                    {each.rank: each.parameters[at] for each in replicas},
                )
    return None
