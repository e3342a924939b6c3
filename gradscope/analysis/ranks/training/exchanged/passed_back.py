"""Custom Functions that gather tensors of ranks, and pass back the gradient of the own one only.

Each rank computes its loss from the tensors of all ranks. So its backward has a gradient for each
of them, and each tensor has one from each rank: their sum belongs to it. A backward that takes the
own part of its own gradient drops what the other losses say.

Where all ranks go on with the same computation, they get the same gradient, and the part is right.
So the gradients that arrive must differ between ranks, and what is dropped must not be zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gradscope.analysis.identity.sites import Site, own_site
from gradscope.analysis.ranks.collectives import RankCall, grouped_calls
from gradscope.analysis.ranks.merging.one_rank import parts
from gradscope.analysis.ranks.training.data.batches import BatchLook
from gradscope.analysis.ranks.training.exchanged.through import GATHERS
from gradscope.analysis.ranks.training.gradients.aligned import passed_by
from gradscope.trace.schema import NONE, Collective, Node, NodeBegin, NodeEnd, Op, Phase, Span
from gradscope.trace.trace import Trace

OF_FUNCTIONS = "Backward"
"""Ending of the nodes of custom Functions; those of operations have a number after it."""

CLOSE = 1e-3
MOST = 64
"""Number of calls of a group that are looked at."""


@dataclass(frozen=True, slots=True)
class OwnPartOnly:
    """A call of such a Function, on all ranks of a group."""

    function: str
    site: Site  # of the call, on the first rank
    gather: str  # "all_gather"
    gathered_at: Site
    ranks: tuple[int, ...]
    node: int  # on the first rank
    span: int
    dropped: float  # the part of the squared norm of the gradient, on the first rank


@dataclass(frozen=True, slots=True)
class _Passed:
    """What the node of a Function got and passed on, on one rank."""

    name: str
    node: int
    stack: int
    into: tuple[BatchLook, ...]
    out: BatchLook

    @property
    def dropped(self) -> float:
        """How much of the squared norm it did not pass on."""
        got = sum(_square(each) for each in self.into)
        return 1 - _square(self.out) / got if got else 0.0


def own_part_only(trace: Trace) -> tuple[OwnPartOnly, ...]:
    """The first call of each line."""
    names = trace.texts(np.unique(trace.table(Node)["name"]))
    own = any(name.endswith(OF_FUNCTIONS) for name in names)
    if len(trace.meta.get("ranks", ())) < 2 or not own:
        return ()
    ranks = {part.rank: _GatheringFunctions(part.trace) for part in trace.once(parts)}
    found: dict[Site, OwnPartOnly] = {}
    for group in trace.once(grouped_calls):
        gathers = [calls for calls in group.together if calls[0].name in GATHERS]
        for calls in gathers[:MOST] if len(group.calls) == len(group.members) else ():
            passed = [ranks[call.rank].around(call) for call in calls]
            known = [each for each in passed if each is not None]
            if len(known) == len(calls) and _is_part(known) and _differ(known):
                first, call = known[0], calls[0]
                site = own_site(trace, first.stack)
                found.setdefault(
                    site,
                    OwnPartOnly(
                        first.name, site, call.name, own_site(trace, call.stack), group.members,
                        first.node, call.span, first.dropped,
                    ),
                )  # fmt: skip
    return tuple(found.values())


def _square(look: BatchLook) -> float:
    return look.many * look.rms**2


def _is_part(each: Sequence[_Passed]) -> bool:
    """Whether each rank passed on a part of what it got, and dropped something."""
    return all(
        sum(look.many for look in one.into) == len(each) * one.out.many and one.dropped > CLOSE
        for one in each
    )


def _differ(each: Sequence[_Passed]) -> bool:
    """Whether ranks got different gradients, by more than rounding."""
    for looks in zip(*(one.into for one in each), strict=False):
        largest = max(look.rms for look in looks)
        for numbers in ([look.rms for look in looks], [look.mean for look in looks]):
            if max(numbers) - min(numbers) > CLOSE * largest:
                return True
    return False


class _GatheringFunctions:
    """The calls of custom Functions of one rank."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._ops, self._nodes = trace.table(Op), trace.table(Node)
        self._has_node = np.flatnonzero(self._ops["node"] != NONE)
        self._begin, self._end = (self._ops[name][self._has_node] for name in ("begin", "end"))
        spans = {row.id: row.begin for row in trace.rows(Span) if row.phase == Phase.COLLECTIVE}
        self._called = [
            spans.get(row.span, NONE) for row in trace.rows(Collective) if not row.caller
        ]

    def around(self, call: RankCall) -> _Passed | None:
        """The Function in whose forward a collective was called, if its node ran without one."""
        within = self._has_node[(self._begin <= call.begin) & (call.begin <= self._end)]
        for at in within[::-1].tolist():
            node = int(self._ops["node"][at])
            name = self._nodes.row(node).name if self._nodes.has(node) else ""
            if not name.endswith(OF_FUNCTIONS):
                continue
            into, out = passed_by(self._trace, node)
            if len(out) == 1 and into and not any(self._collectives(node)):
                function, stack = name.removesuffix(OF_FUNCTIONS), int(self._ops["stack"][at])
                return _Passed(function, node, stack, tuple(into), out[0])
        return None

    def _collectives(self, node: int) -> Iterator[bool]:
        """For each run of a node, whether it called a collective."""
        begins, ends = self._trace.table(NodeBegin), self._trace.table(NodeEnd)
        began, ended = (np.sort(of["t"][of["node"] == node]) for of in (begins, ends))
        for begin, end in zip(began.tolist(), ended.tolist(), strict=False):
            yield any(begin <= t <= end for t in self._called)
