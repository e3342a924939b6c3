"""Gradients that are sums over ranks, in an optimizer next to others that the program averages.

What an expert computes for other ranks comes back through a collective, whose backward brings the
gradients of all ranks' losses: their sum. The parameters that all ranks hold get the average. Both
belong to one loss, the average over ranks, so the sums are too large by the number of ranks.

A factor somewhere on the way makes up for it: in a function, in a hook, in the learning rate. The
statistics of gradients show whether a node scaled them. Optimizers that divide each gradient by
its own size are left out: they do not see a factor.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from gradscope.analysis.identity.sites import Site, own_site
from gradscope.analysis.program.acts import Acts
from gradscope.analysis.program.numbers import computed_losses
from gradscope.analysis.ranks.audit import Combining, audits
from gradscope.analysis.ranks.merging.one_rank import RankPart, parts
from gradscope.analysis.ranks.training.gradients.aligned import (
    AlignedCalls,
    HeldParameter,
    RankCalls,
    held_parameters,
    passed_by,
)
from gradscope.trace.schema import (
    NONE,
    BackendWork,
    Collective,
    Edge,
    GraphTask,
    HookAct,
    Node,
    ProcessGroup,
    Span,
)
from gradscope.trace.trace import Trace

CLOSE = 2e-3
"""Largest relative difference of norms that are the same; those of steps have four digits."""


@dataclass(frozen=True, slots=True)
class LeftAsSums:
    """Parameters of one optimizer whose gradients came through collectives, and stayed sums."""

    parameters: tuple[HeldParameter, ...]
    averaged: tuple[HeldParameter, ...]
    site: Site  # the step
    through: Site  # the call through which the gradients came
    act: int  # the step
    op: int  # that call, on the first rank
    size: int  # number of ranks


def left_as_sums(trace: Trace) -> tuple[LeftAsSums, ...]:
    """One for each optimizer."""
    if len(trace.meta.get("ranks", ())) < 2:
        return ()
    held = trace.once(held_parameters)
    if not any(each.differs for each in held) or not any(all(each.equal) for each in held):
        return ()
    every = trace.once(parts)
    optimizers = every[0].trace.once(Acts).optimizers
    found = []
    for number in dict.fromkeys(each.optimizer for each in held):
        of = optimizers[number]
        rates = {*of.steps[0].facts.lr}
        if "SGD" in of.type and len(rates) == 1:
            found.append(_in_one(trace, number, [e for e in held if e.optimizer == number]))
    return tuple(each for each in found if each is not None)


def _in_one(trace: Trace, number: int, held: list[HeldParameter]) -> LeftAsSums | None:
    hows = {one.tensor: one.how for audit in audits(trace) for one in audit.parameters}
    every, aligned = trace.once(parts), trace.once(AlignedCalls)
    first = aligned.first
    if first is None or not aligned.ranks or not first.crossing or not _losses_differ(every):
        return None
    if any(len(each.members) != len(every) for each in first.exchanged):
        return None
    averaged = tuple(
        each
        for each in held
        if all(each.equal)
        and (hows.get(each.tensors[first.rank]) is Combining.AVERAGED or _is_averaged(every, each))
    )
    own = [
        each
        for each in held
        if not any(each.equal) and hows.get(each.tensors[first.rank]) is Combining.OWN
    ]
    if not averaged or not own:
        return None
    ways = {rank: _Ways(each) for rank, each in aligned.ranks.items()}
    left = tuple(each for each in own if _is_a_sum(ways, each))
    if not left:
        return None
    step = every[0].trace.once(Acts).optimizers[number].steps[0]
    at = first.at[min(ways[first.rank].crossed(left[0].tensors[first.rank]))]
    return LeftAsSums(
        left, averaged, own_site(first.trace, step.stack),
        own_site(first.trace, first.calls.stack(at)), step.id, first.calls.id(at), len(every),
    )  # fmt: skip


def _losses_differ(every: Iterable[RankPart]) -> bool:
    """Whether each rank computed a first loss of its own."""
    firsts = [[loss for _, loss in computed_losses(part.trace)[:1]] for part in every]
    return all(firsts) and len({loss for of in firsts for loss in of}) == len(firsts)


def _is_averaged(every: tuple[RankPart, ...], of: HeldParameter) -> bool:
    """Whether the program summed this gradient over all ranks once, and used the average."""
    return all(
        len(sums) == 1
        and sums[0] > 0
        and abs(sums[0] / len(every) - of.grads[part.rank]) <= CLOSE * of.grads[part.rank]
        for part in every
        for sums in [_summed(part.trace, len(every)).get(of.tensors[part.rank], ())]
    )


def _summed(trace: Trace, size: int) -> Mapping[int, list[float]]:
    """Norms of gradients that the program summed over all ranks before the first step."""
    return {
        tensor: [norm for t, norm in each if t < _first_step(trace)]
        for (tensor, many), each in trace.once(_reduced).items()
        if many == size
    }


def _first_step(trace: Trace) -> int:
    return min((s.t for o in trace.once(Acts).optimizers for s in o.steps), default=NONE)


def _reduced(trace: Trace) -> Mapping[tuple[int, int], list[tuple[int, float]]]:
    """By parameter and number of ranks, when its gradient was summed, and its norm after that."""
    spans = {row.id: row for row in trace.rows(Span)}
    works = {row.span: row for row in trace.rows(BackendWork)}
    groups = {row.id: len(row.members) for row in trace.rows(ProcessGroup)}
    found = defaultdict(list)
    for row in trace.rows(Collective):
        span, work = spans.get(row.span), works.get(row.span)
        if span is None or work is None or len(row.parameters) != 1 or row.holds != "gradients":
            continue
        if span.name.partition(",")[0] == "all_reduce" and len(work.norms) == 2:
            key = row.parameters[0], groups.get(row.group, 0)
            found[key].append((span.begin, work.norms[1]))
    return found


class _Ways:
    """The ways that gradients take in the first step of a rank, from losses to leaves."""

    def __init__(self, rank: RankCalls) -> None:
        self.rank, self.trace = rank, rank.trace
        edges = rank.trace.table(Edge)
        self._next: dict[int, list[int]] = defaultdict(list)
        self._back: dict[int, list[int]] = defaultdict(list)
        for node, following in zip(edges["node"].tolist(), edges["next"].tolist(), strict=True):
            if following != NONE:
                self._next[node].append(following)
                self._back[following].append(node)
        self._roots = [
            root
            for row in rank.trace.rows(GraphTask)
            if row.begin < rank.until
            for root in row.roots
        ]
        ops = rank.calls.ops
        self._crossing = {int(ops["node"][rank.at[number]]): number for number in rank.crossing}
        nodes = rank.trace.table(Node)
        named = [name.startswith("AccumulateGrad") for name in nodes.texts("name")]
        leaves = nodes.take(np.flatnonzero(named))
        self._ends: dict[int, list[int]] = defaultdict(list)  # of each leaf; a new one each step
        for row in leaves:
            for leaf in row.inputs[:1]:
                self._ends[leaf].append(row.id)
        self.hooked = {
            tensor for act in rank.trace.once(Acts).of(HookAct) for tensor in act.tensors
        }

    def between(self, leaf: int) -> set[int]:
        """The nodes between the losses and a leaf."""
        ends = self._ends.get(leaf, ())
        return self._reached(self._roots, self._next) & self._reached(ends, self._back)

    def crossed(self, leaf: int) -> list[int]:
        """The numbers of the calls with collectives through which all its gradients come."""
        around = self._reached(self._roots, self._next, without=self._crossing)
        return [] if around.intersection(self._ends.get(leaf, ())) else self.crossings(leaf)

    def crossings(self, leaf: int) -> list[int]:
        within = self.between(leaf)
        return [number for node, number in self._crossing.items() if node in within]

    def scaled(self, leaf: int, size: int) -> bool:
        """Whether a node on the way may have divided by the number of ranks."""
        for node in self.between(leaf):
            into, out = passed_by(self.trace, node)
            if len(into) == len(out) == 1 and into[0].many == out[0].many:
                norms = into[0].rms, out[0].rms
                if abs(norms[1] * size - norms[0]) <= CLOSE * norms[0]:
                    return True
        return False

    @staticmethod
    def _reached(
        start: Iterable[int], links: Mapping[int, list[int]], without: Iterable[int] = ()
    ) -> set[int]:
        found, pending = {*without}, [*start]
        while pending:
            node = pending.pop()
            if node not in found:
                found.add(node)
                pending += links.get(node, ())
        return found - {*without}


def _is_a_sum(ways: Mapping[int, _Ways], of: HeldParameter) -> bool:
    """Whether the gradients of a parameter came through collectives that keep sums or norms."""
    crossed = {rank: each.crossed(of.tensors[rank]) for rank, each in ways.items()}
    if len({tuple(sorted(each)) for each in crossed.values()}) != 1:
        return False
    numbers = next(iter(crossed.values()))
    if not numbers or any(of.tensors[rank] in each.hooked for rank, each in ways.items()):
        return False
    if any(each.scaled(of.tensors[rank], len(ways)) for rank, each in ways.items()):
        return False
    return all(_keeps(ways, number) for number in numbers)


def _keeps(ways: Mapping[int, _Ways], number: int) -> bool:
    """Whether what a call's nodes got and gave on all ranks has the same sum, or the same norm."""
    squares, sums, many = [0.0, 0.0], [0.0, 0.0], 0
    for each in ways.values():
        rank = each.rank
        node = int(rank.calls.ops["node"][rank.at[number]])
        for side, looks in enumerate(passed_by(rank.trace, node)):
            if not looks:
                return False
            squares[side] += sum(look.many * look.rms**2 for look in looks)
            sums[side] += sum(look.many * look.mean for look in looks)
            many += sum(look.many for look in looks)
    if abs(squares[0] - squares[1]) <= CLOSE * squares[0]:
        return True
    shows = abs(sums[0]) > 0.02 * math.sqrt(max(squares) * max(many, 1))
    return shows and abs(sums[0] - sums[1]) <= CLOSE * abs(sums[0])
