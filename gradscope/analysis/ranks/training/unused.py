"""Parameters of DistributedDataParallel that got a gradient on some ranks only, and why.

Steps are compared by their number. In a step, a rank has used a parameter if one of its own
backwards brought a gradient to it, before gradients were averaged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from gradscope.analysis.identity.leaves import fill_leaves
from gradscope.analysis.identity.sites import Site, at, own_site
from gradscope.analysis.lookups import grouped
from gradscope.analysis.program.acts import Acts, cut_in_words
from gradscope.analysis.ranks.merging.one_rank import RankPart, parts
from gradscope.analysis.ranks.replicas import Group, replicated
from gradscope.analysis.ranks.training.branches import lines_run, not_run, parted_at, skipped_at
from gradscope.analysis.rules.trained.forwards import cuts_that_go_on
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, Accumulate, Edge, GraphTask, Node, Op, Step
from gradscope.trace.trace import Trace

MOST = 20
"""Largest number of different sets of parameters whose reason is looked for."""

NOWHERE = Site()


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a rank did not use what another one used, and where."""

    words: str
    site: Site


@dataclass(frozen=True, slots=True)
class UnusedOnSome:
    """Parameters without a gradient on some ranks, for one reason."""

    ranks: tuple[int, ...]
    others: tuple[int, ...]  # ranks that used them
    part: RankPart  # of the first of these ranks
    tensors: tuple[int, ...]  # there
    step: int  # the number of the first step
    steps: int  # number of steps
    of: int  # number of steps that were compared
    task: int  # a backward of that step on that rank
    used_at: Site  # where another rank used the first of them
    cause: Cause


@dataclass(frozen=True, slots=True)
class _Used:
    """The parameters that a rank used in a step, by their place in the model."""

    places: frozenset[int]
    task: int
    whole: bool  # all backwards ended without an error


@dataclass(frozen=True, slots=True)
class _Replica:
    """One rank's copy of a model, and the steps in which it was used, by number."""

    part: RankPart
    parameters: tuple[int, ...]
    steps: Mapping[int, _Used]


@dataclass(frozen=True, slots=True)
class _Case:
    """A step in which ranks used different parameters."""

    step: int
    ranks: tuple[int, ...]
    others: tuple[int, ...]
    places: tuple[int, ...]


def unused_on_some(trace: Trace) -> tuple[UnusedOnSome, ...]:
    """What ranks did not use, by the reason; none in the trace of one process."""
    if "ranks" not in trace.meta:
        return ()
    together: dict[tuple[Group, int], list[_Replica]] = {}
    for part in trace.once(parts):
        for model, (group, parameters) in enumerate(part.trace.once(replicated)):
            replica = _Replica(part, parameters, _steps(part.trace, parameters))
            together.setdefault((group, model), []).append(replica)
    return tuple(each for replicas in together.values() for each in _compared(replicas))


def _steps(trace: Trace, parameters: tuple[int, ...]) -> dict[int, _Used]:
    """The parameters with a gradient of each step, where there are some."""
    tasks, events, steps = trace.table(GraphTask), trace.table(Accumulate), trace.table(Step)
    place_of = {tensor: place for place, tensor in enumerate(parameters)}
    chosen = np.isin(events["tensor"], parameters)
    reached = grouped(
        zip(events["task"][chosen].tolist(), events["tensor"][chosen].tolist(), strict=True),
        lambda pair: pair[0],
    )
    whole = (tasks["end"] != NONE) & (tasks["error"] == 0)
    ended = dict(zip(tasks["id"].tolist(), whole.tolist(), strict=True))
    of_step = dict(zip(tasks["id"].tolist(), tasks["step"].tolist(), strict=True))
    found: dict[int, _Used] = {}
    for task, pairs in reached.items():
        if not steps.has(of_step.get(task, NONE)):
            continue
        number = int(steps["number"][steps.index(of_step[task])])
        before = found.get(number, _Used(frozenset(), task, whole=True))
        places = before.places | {place_of[tensor] for _, tensor in pairs}
        found[number] = _Used(places, before.task, before.whole and ended[task])
    return found


def _compared(replicas: list[_Replica]) -> Iterator[UnusedOnSome]:
    cases, of = _cases(replicas)
    by_reason: dict[tuple[tuple[int, ...], str], list[tuple[_Case, Cause, Site]]] = {}
    known: dict[tuple[object, ...], tuple[Cause, Site]] = {}
    for case in cases:
        key = case.ranks, case.places
        if key not in known:
            if len(known) == MOST:
                continue
            known[key] = _cause(replicas, case)
        cause, used_at = known[key]
        place = cause.site.place or used_at.place
        by_reason.setdefault((case.ranks, place), []).append((case, cause, used_at))
    for (ranks, _), several in by_reason.items():
        (first, cause, used_at), numbers = several[0], {case.step for case, *_ in several}
        replica = _of_rank(replicas, ranks[0])
        yield UnusedOnSome(
            ranks,
            first.others,
            replica.part,
            tuple(
                replica.parameters[place]
                for place in sorted({place for case, *_ in several for place in case.places})
            ),
            first.step,
            len(numbers),
            of,
            replica.steps[first.step].task,
            used_at,
            cause,
        )


def _cases(replicas: list[_Replica]) -> tuple[list[_Case], int]:
    """The differences, by step and by the ranks that have not used something; number of steps."""
    numbers = sorted({number for each in replicas for number in each.steps})
    cases, compared = [], 0
    for number in numbers:
        there = {each.part.rank: each.steps[number] for each in replicas if number in each.steps}
        compared += len(there) > 1
        by_ranks: dict[tuple[int, ...], list[int]] = {}
        for place in sorted(frozenset[int]().union(*(used.places for used in there.values()))):
            without = tuple(
                rank for rank, used in there.items() if used.whole and place not in used.places
            )
            if without:
                by_ranks.setdefault(without, []).append(place)
        for ranks, places in by_ranks.items():
            others = tuple(rank for rank, used in there.items() if places[0] in used.places)
            cases.append(_Case(number, ranks, others, tuple(places)))
    return cases, compared


def _of_rank(replicas: list[_Replica], rank: int) -> _Replica:
    return next(each for each in replicas if each.part.rank == rank)


# -- why ------------------------------------------------------------------------------------------


def _cause(replicas: list[_Replica], case: _Case) -> tuple[Cause, Site]:
    """Why the first of the ranks did not use it, and where the first of the others did."""
    here, there = (_of_rank(replicas, ranks[0]) for ranks in (case.ranks, case.others))
    step, their_step = (_step_of(each, case.step) for each in (here, there))
    mine, theirs = here.part.trace, there.part.trace
    tensor, their_tensor = (each.parameters[case.places[0]] for each in (here, there))
    stack = _used_at(theirs, their_tensor, their_step)
    used_at = own_site(theirs, stack) if stack != NONE else NOWHERE
    if cut := _cut(mine, tensor, step, theirs, their_step):
        return cut, used_at
    rank = f"rank {here.part.rank}"
    if stack == NONE:
        return Cause(f"{rank} did not use it", NOWHERE), used_at
    ran = lines_run(mine, step)
    if missed := not_run(theirs, stack, ran):
        branch = parted_at(mine, missed, ran, lines_run(theirs, their_step))
        parting = f": the branch{at(branch)} parted them" if branch else ""
        return Cause(f"{rank} did not run that line{parting}", branch or used_at), used_at
    stack = _taken_at(mine, tensor, step)
    if stack != NONE:
        site = own_site(mine, stack)
        return Cause(f"the loss of {rank} does not depend on what was computed from it", site), (
            used_at
        )
    skip = skipped_at(mine, used_at)
    by = f"; the branch{at(skip)} may have left it out" if skip else ""
    return Cause(f"{rank} ran that line without it{by}", skip or used_at), used_at


def _taken_at(trace: Trace, tensor: int, step: int) -> int:
    """The stack of a call of a step that computed with this leaf and did not write it; or NONE."""
    ops = trace.table(Op)
    reads, writes = (
        distinct(cells.owners[cells.values == tensor])
        for cells in (ops.ragged("inputs"), ops.ragged("outputs"))
    )
    takes = reads[(ops["step"][reads] == step) & ~np.isin(reads, writes)]
    return int(ops["stack"][takes[0]]) if len(takes) else NONE


def _step_of(replica: _Replica, number: int) -> int:
    """The id of the step with this number."""
    tasks, task = replica.part.trace.table(GraphTask), replica.steps[number].task
    return int(tasks["step"][tasks.index(task)])


def _used_at(trace: Trace, tensor: int, step: int) -> int:
    """The stack of the first node of a step that sends this leaf a gradient; or NONE."""
    nodes, edges = trace.table(Node), trace.table(Edge)
    inputs = nodes.ragged("inputs")
    fills = fill_leaves(trace)[inputs.owners] & (inputs.values == tensor)
    leaves = nodes["id"][inputs.owners[fills]]
    users = nodes.positions(edges["node"][np.isin(edges["next"], leaves)])
    users = users[users != NONE]
    users = users[(nodes["step"][users] == step) & (nodes["stack"][users] != NONE)]
    return int(nodes["stack"][users[0]]) if len(users) else NONE


def _cut(mine: Trace, tensor: int, step: int, theirs: Trace, their_step: int) -> Cause | None:
    """A cut of what was computed from it that the other rank has not made."""
    acts = theirs.once(Acts)
    also = {acts.place(each) for each in theirs.once(cuts_that_go_on) if each.step == their_step}
    for act in mine.once(cuts_that_go_on):
        site = mine.once(Acts).site(act)
        if act.step == step and tensor in act.tensors and site.place not in also:
            return Cause(f"{cut_in_words(act.facts.by)} cut the graph{at(site)}", site)
    return None
