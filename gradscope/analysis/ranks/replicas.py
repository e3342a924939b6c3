"""Parameters that DistributedDataParallel keeps equal, compared across ranks at optimizer steps.

At each step that was measured, the norm of a parameter, that of its gradient, and that of what the
step adds to it must be the same on all ranks, and the bits of parameters. Norms have four digits.
Steps of an optimizer are aligned by what ranks called together (see training/rounds.py), or by
their number. Ranks that agree again after a difference are averaged from time to time (local SGD):
they differ on purpose.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from gradscope.analysis.identity.sites import Site, own_site
from gradscope.analysis.program.acts import Acts, Done, Optimizer
from gradscope.analysis.program.numbers import computed_losses
from gradscope.analysis.ranks.collectives import grouped_calls
from gradscope.analysis.ranks.merging.one_rank import RankPart, equal_parts, parts
from gradscope.analysis.ranks.training.gradients.averaged import Averaged, averaged, pass_parts
from gradscope.analysis.ranks.training.rounds import Steps, steps_together
from gradscope.analysis.ranks.whose import RankOf
from gradscope.trace.schema import (
    NONE,
    GraphTask,
    LoadedAct,
    Op,
    ProcessGroup,
    Replicated,
    StepAct,
    Tensor,
)
from gradscope.trace.trace import Trace

WRAPPED = "module."
"""How names of parameters begin that are in a module which DistributedDataParallel has wrapped."""

FEWEST = 3
"""Number of different losses, or of steps, that ranks do not have in common by chance."""

Group = tuple[str, tuple[int, ...]]
BY_HAND: Group = ("", ())
OUTSIDE: Group = ("", (NONE,))
"""Stand for the group of models without DistributedDataParallel, and of parameters outside of it.
"""

BITS = (("parameter", "hashes"),)
"""Compared after norms: parameters whose norms have the same four digits may still differ."""

COPIES, NOT_WRITTEN = frozenset({"copy_"}), frozenset({"set_", "requires_grad_"})
"""Calls that copy into a tensor; that leave its values as they are."""


@dataclass(frozen=True, slots=True)
class Drift:
    """The first step at which ranks have different values of a replicated parameter."""

    name: str  # of the parameter
    what: str  # "parameter", "gradient", "update", "outside"; "step", "round": see `drifts`
    number: int  # of the step of the optimizer
    values: dict[int, float]  # the norm, by rank
    steps: dict[int, Done[StepAct]]  # by rank
    last: dict[int, Done[StepAct]]  # the steps before; empty if there are none
    tensors: dict[int, int]  # the parameter, by rank
    by_hand: bool = False  # the program averages gradients itself
    averaged: Averaged | None = None  # how, if it was checked


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
        groups = {group for group, _ in part.trace.once(replicated)}
        if len({*values}) < FEWEST or _was_reduced(trace, part, losses[-1][0]):
            continue
        for group in groups:
            by_losses.setdefault((group, values), []).append((part.rank, losses[-1][0]))
    found = {
        tuple(rank for rank, _ in of): SameLosses(
            tuple(rank for rank, _ in of), len(values), of[0][1]
        )
        for (_, values), of in by_losses.items()
        if len(of) > 1
    }
    return tuple(found.values())


def _was_reduced(trace: Trace, part: RankPart, op: int) -> bool:
    """Whether a collective wrote a number from which this call computed a loss."""
    calls, made = part.trace.table(Op), part.trace.table(Op).row(op)
    outputs = calls.ragged("outputs")
    of = outputs.owners[np.isin(outputs.values, made.inputs)]
    begun = calls["begin"][of]
    since = int(begun.min(initial=made.begin))
    return any(
        since < call.begin < made.begin
        for group in trace.once(grouped_calls)
        for call in group.calls.get(part.rank, ())
    )


def drifts(trace: Trace) -> tuple[Drift, ...]:
    """The first difference for each optimizer, if ranks differ until the end.

    "step": some ranks took no step after a backward that all had; "round": where others took one.
    """
    if "ranks" not in trace.meta or len(trace.once(equal_parts)) == 1:
        return ()
    every = [found for part in trace.once(parts) for found in _replicas(part)]
    together: dict[tuple[Group, int, int], list[_Replica]] = {}
    for key, replica in every:
        together.setdefault(key, []).append(replica)
    found = []
    for (group, *_), replicas in together.items():
        if group == OUTSIDE:
            found += _outside(trace, replicas) if len(replicas) > 1 else []
        elif group == BY_HAND:
            found += _drift(trace, replicas, by_hand=True)
        elif len(replicas) > 1:
            found += _drift(trace, replicas)
    across: dict[tuple[int, int], dict[Group, list[_Replica]]] = {}
    for (group, model, number), replicas in together.items():
        if group not in (OUTSIDE, BY_HAND):
            across.setdefault((model, number), {})[group] = replicas
    for by_group in across.values():
        if len(by_group) > 1 and not found:
            found += _drift(trace, [one for each in by_group.values() for one in each], apart=True)
    return tuple(found)


def _drift(
    trace: Trace, replicas: list[_Replica], *, by_hand: bool = False, apart: bool = False
) -> list[Drift]:
    """The first difference of these replicas.

    `by_hand`: only if the program averages their gradients; `apart`: only if it does so in groups.
    """
    steps = {each.rank: each.steps for each in replicas}
    how = None
    if by_hand or apart:
        many = {len(each.parameters) for each in replicas}
        how = averaged(trace, steps) if len(replicas) > 1 and len(many) == 1 else None
        if how is None or (apart and len(how.groups) == 1):
            return []
    drift = _skipped(trace, replicas) or _first_drift(replicas, steps_together(trace, steps))
    return [] if drift is None else [replace(drift, by_hand=by_hand, averaged=how)]


def _outside(trace: Trace, replicas: list[_Replica]) -> list[Drift]:
    """A parameter of an optimizer that is in no model of DistributedDataParallel, unlike others.

    It was equal at first, or is part of the module that was wrapped; and its gradients differ.
    """
    if pass_parts(trace) or len({len(each.parameters) for each in replicas}) > 1:
        return []
    first = {each.rank: each.steps[0] for each in replicas if each.steps}
    if len(first) < len(replicas):
        return []
    for at in replicas[0].places:
        name = replicas[0].names.get(replicas[0].parameters[at], "")
        size, grad = (
            {each.rank: _cell(first[each.rank], column, each.places[at]) for each in replicas}
            for column in ("size", "grad")
        )
        alike = len({*size.values()}) == 1 or name.startswith(WRAPPED)
        if alike and len({*grad.values()}) > 1 and not any(map(math.isnan, grad.values())):
            tensors = {each.rank: each.parameters[at] for each in replicas}
            return [Drift(name, "outside", 0, grad, first, {}, tensors)]
    return []


def _cell(step: Done[StepAct], column: str, place: int) -> float:
    cells = getattr(step.facts, column)
    return cells[place] if place < len(cells) else math.nan


def _skipped(trace: Trace, replicas: list[_Replica]) -> Drift | None:
    """The first step that some ranks took after a backward, and others did not.

    Only where all ranks have as many backwards, and not as many steps, or FEWEST together before
    that: who accumulates gradients over another number of backwards skips nothing.
    """
    begun = {each.rank: _backwards(trace, each.rank) for each in replicas}
    if len({len(each) for each in begun.values()}) > 1 or not all(begun.values()):
        return None
    least = FEWEST if len({len(each.steps) for each in replicas}) < 2 else 0
    taken: dict[int, dict[int, Done[StepAct]]] = {}
    for each in replicas:
        after = np.searchsorted(begun[each.rank], [step.t for step in each.steps])
        taken[each.rank] = dict(zip(after.tolist(), each.steps, strict=True))
    for number in range(1, len(begun[replicas[0].rank]) + 1):
        steps = {rank: own[number] for rank, own in taken.items() if number in own}
        if steps and len(steps) < len(replicas):
            return Drift("", "step", number, {}, steps, {}, {}) if least <= 0 else None
        least -= bool(steps)
    return None


def _backwards(trace: Trace, rank: int) -> list[int]:
    """When the backwards of a rank began that no other one contains."""
    tasks = trace.table(GraphTask)
    of = trace.once(RankOf).of(GraphTask.TABLE, tasks["id"]) == rank
    return sorted(tasks["begin"][of & (tasks["parent"] == NONE)].tolist())


def written_on_some(trace: Trace, drift: Drift) -> tuple[int, int] | None:
    """A rank that wrote the parameter before it differed at a line where others did not.

    The rank, and the stack of the last such write. None: no such write was recorded.
    """
    written = {
        rank: {own_site(trace, stack): stack for _, stack in writes}
        for rank, writes in _writes(trace, drift).items()
    }
    for rank, own in written.items():
        for site, stack in reversed(own.items()):
            if any(site not in others for others in written.values()):
                return rank, stack
    return None


def written_on_all(trace: Trace, drift: Drift) -> tuple[str, int] | None:
    """The last write of the parameter before it differed, if all ranks wrote it there.

    The name of the call, and its stack. A copy is left out: it may be that of
    DistributedDataParallel, which makes the replicas equal.
    """
    last = [writes[-1] for writes in _writes(trace, drift).values() if writes]
    sites = {own_site(trace, stack) for _, stack in last}
    if len(last) < len(drift.tensors) or len(sites) > 1 or last[0][0] in COPIES:
        return None
    return last[0]


def loaded_on_some(trace: Trace) -> tuple[int, Site] | None:
    """A rank that loaded a state into a module at a line where others did not, and that line."""
    loaded = {
        part.rank: [own_site(part.trace, act.stack) for act in part.trace.once(Acts).of(LoadedAct)]
        for part in trace.once(parts)
    }
    for rank, own in loaded.items():
        for site in reversed(own):
            if site.place and any(site not in others for others in loaded.values()):
                return rank, site
    return None


def _writes(trace: Trace, drift: Drift) -> dict[int, list[tuple[str, int]]]:
    """By rank, the calls that wrote the parameter since the step before: names and stacks."""
    if drift.what != "parameter":
        return {rank: [] for rank in drift.tensors}
    calls = trace.table(Op)
    outputs, found = calls.ragged("outputs"), {}
    for rank, tensor in drift.tensors.items():
        of = np.unique(outputs.owners[outputs.values == tensor])
        begin = calls.array("begin")[of]
        since = drift.last[rank].t if drift.last else 0
        of = of[(begin > since) & (begin < drift.steps[rank].t)]
        rows = zip(trace.texts(calls["name"][of]), calls["stack"][of].tolist(), strict=True)
        found[rank] = [(name, at) for name, at in rows if at != NONE and name not in NOT_WRITTEN]
    return found


def _replicas(part: RankPart) -> list[tuple[tuple[Group, int, int], _Replica]]:
    """The replicated parameters of a rank, by group, number of the model and of the optimizer."""
    trace = part.trace
    tensors = trace.table(Tensor)
    names = dict(zip(tensors["id"].tolist(), tensors.texts("name"), strict=True))
    found = []
    for number, optimizer in enumerate(trace.once(Acts).optimizers):
        models = [*enumerate(trace.once(replicated))]
        held = {tensor for _, (_, parameters) in models for tensor in parameters}
        rest = tuple(tensor for tensor in optimizer.tensors if tensor not in held)
        if len(rest) in {0, len(optimizer.tensors)} and models:
            rest = ()
        others = [(NONE, (OUTSIDE if models else BY_HAND, rest))]
        for model, (group, parameters) in models + others:
            places = _places(optimizer, parameters)
            if places:
                replica = _Replica(part.rank, names, parameters, optimizer.steps, places)
                found.append(((group, model, number), replica))
    return found


def replicated(trace: Trace) -> list[tuple[Group, tuple[int, ...]]]:
    """The replicated parameters of a rank, and their groups."""
    groups = {row.id: (row.name, row.members) for row in trace.rows(ProcessGroup)}
    return [(groups.get(row.group, ("", ())), row.parameters) for row in trace.rows(Replicated)]


def _places(optimizer: Optimizer, parameters: tuple[int, ...]) -> dict[int, int]:
    places = {tensor: place for place, tensor in enumerate(optimizer.tensors)}
    return {at: places[tensor] for at, tensor in enumerate(parameters) if tensor in places}


def _first_drift(replicas: list[_Replica], aligned: list[Steps]) -> Drift | None:
    if len({frozenset(each.places) for each in replicas}) > 1:
        return None  # optimizers that divide the parameters among ranks
    found: Drift | None = None
    apart = False  # whether parameters have differed
    last: Steps = {}
    alone: Drift | None = None  # the first steps since then that some ranks did not take
    numbers = dict.fromkeys((each.rank for each in replicas), 0)
    for by_rank in aligned:
        number = max(numbers[rank] for rank in by_rank)
        for rank in by_rank:
            numbers[rank] += 1
        if len(by_rank) < len(replicas):
            alone = alone or Drift("", "round", number, {}, by_rank, {}, {})
            continue
        now = _difference(replicas, by_rank, number, last)
        differ = now is not None and now.what == "parameter"
        if apart and not differ and _is_measured(replicas, by_rank):
            return None
        apart = apart or differ
        found = found or (alone if differ else None) or now
        last, alone = by_rank, None
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
        before.facts.grad and steps[rank].facts.grad == before.facts.grad
        for rank, before in last.items()
    )  # a rank without more batches steps with the others, with the gradient that it has
    columns = (("parameter", "size"), ("gradient", "grad"), ("update", "moved"))
    for what, column in (*columns[:1], *BITS, *(() if old else columns[1:])):
        for at in replicas[0].places:
            values, shown = ({
                each.rank: _cell(steps[each.rank], named, each.places[at]) for each in replicas
            } for named in (column, "size" if (what, column) in BITS else column))  # fmt: skip
            known = [value for value in values.values() if value != NONE and not math.isnan(value)]
            if len(known) == len(replicas) and len({*known}) > 1:
                first = replicas[0]
                return Drift(
                    first.names.get(first.parameters[at], ""),
                    what,
                    number,
                    shown,
                    steps,
                    last,
                    {each.rank: each.parameters[at] for each in replicas},
                )
    return None
