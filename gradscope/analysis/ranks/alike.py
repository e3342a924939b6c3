"""Ranks of a merged trace that did the same, in groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gradscope.analysis.ranks.whose import RankOf, endings
from gradscope.trace.schema import NONE, GraphTask, Node, Phase, Span, Step
from gradscope.trace.trace import Trace


class _Did(NamedTuple):
    """What one rank did."""

    steps: int
    backwards: int
    nodes: int
    collectives: int
    ending: str  # "ok", or how it failed; "" if that is not known
    graph: bytes  # the names of its nodes, sorted


@dataclass(frozen=True, slots=True)
class RanksAlike:
    """Ranks with the same kinds of nodes, the same counts and the same ending."""

    ranks: tuple[int, ...]
    steps: int
    backwards: int  # graph tasks that no other one contains
    nodes: int
    collectives: int
    ending: str


def ranks_alike(trace: Trace) -> tuple[RanksAlike, ...]:
    """The groups, the largest first; none in the trace of one process."""
    groups: dict[_Did, list[int]] = {}
    for rank, did in _all(trace).items():
        groups.setdefault(did, []).append(rank)
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[1]))
    return tuple(RanksAlike(tuple(ranks), *did[:-1]) for did, ranks in ordered)


def _all(trace: Trace) -> dict[int, _Did]:
    whose = trace.once(RankOf)
    steps, tasks = trace.table(Step), trace.table(GraphTask)
    nodes, spans = trace.table(Node), trace.table(Span)
    outer = tasks["id"][tasks["parent"] == NONE]
    exchanges = spans["id"][spans["phase"] == Phase.COLLECTIVE]
    of_steps, of_nodes = whose.of(Step.TABLE, steps["id"]), whose.of(Node.TABLE, nodes["id"])
    of_tasks, of_spans = whose.of(GraphTask.TABLE, outer), whose.of(Span.TABLE, exchanges)
    ended = endings(trace)
    return {
        rank: _Did(
            len(np.unique(steps["number"][of_steps == rank])),
            int(np.count_nonzero(of_tasks == rank)),
            int(np.count_nonzero(of_nodes == rank)),
            int(np.count_nonzero(of_spans == rank)),
            ended.get(rank, ""),
            np.sort(nodes.array("name")[of_nodes == rank]).tobytes(),
        )
        for rank in whose.numbers
    }
