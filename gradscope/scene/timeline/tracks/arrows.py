"""Arrows between slices: from a call to its node, and along gradients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradscope.analysis.identity.backwards import backward_numbers
from gradscope.analysis.lookups import Ids
from gradscope.analysis.timing.passages import passages
from gradscope.scene.timeline.tracks.slices import Slices, Sort
from gradscope.trace.schema import NONE, Node
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class Arrows:
    """Arrows from the beginning of one slice to that of another; equal-length columns."""

    tail: Ids
    head: Ids
    made: Ids  # 1: the operation created the node; 0: the last gradient a node waited for


def arrows_of(trace: Trace, slices: Slices) -> Arrows:
    """From operations to runs of their nodes, and along the last gradient each waited for."""
    ops, nodes = (np.flatnonzero(slices.sort == int(kind)) for kind in (Sort.OP, Sort.NODE))
    tails, heads, made = [], [], []
    for tail, head, is_made in (
        (*_makers(trace, slices, ops, nodes), 1),
        (*_senders(trace, slices, nodes), 0),
    ):
        rises = slices.begin[tail] <= slices.begin[head]
        tails.append(tail[rises])
        heads.append(head[rises])
        made.append(np.full(int(rises.sum()), is_made, np.int64))
    return Arrows(*(np.concatenate(parts) for parts in (tails, heads, made)))


def _looked_up(known: Ids, wanted: Ids) -> Ids:
    """The position of each wanted number among the known; NONE if it is not there."""
    if not len(known):
        return np.full(len(wanted), NONE, np.int64)
    order = np.argsort(known, kind="stable")
    at = np.minimum(np.searchsorted(known[order], wanted), len(known) - 1)
    return np.where(known[order][at] == wanted, order[at], NONE)


def _makers(trace: Trace, slices: Slices, ops: Ids, nodes: Ids) -> tuple[Ids, Ids]:
    table = trace.table(Node)
    at = table.positions(slices.of[nodes]) if len(table) else np.full(len(nodes), NONE)
    op = np.where(at == NONE, NONE, table["op"][at]) if len(table) else at
    found = _looked_up(slices.of[ops], op)
    there = (found != NONE) & (op != NONE)
    return ops[found[there]], nodes[there]


def _senders(trace: Trace, slices: Slices, nodes: Ids) -> tuple[Ids, Ids]:
    way = passages(trace)
    numbers = backward_numbers(trace)
    backward = np.array([numbers.get(task, NONE) for task in way.task.tolist()], np.int64)
    keys = _pairs(
        (slices.column("backward")[nodes], slices.of[nodes]),
        (backward, way.node),
        (backward, way.after),
    )
    head, tail = _looked_up(keys[0], keys[1]), _looked_up(keys[0], keys[2])
    there = (head != NONE) & (tail != NONE) & (way.after != NONE)
    return nodes[tail[there]], nodes[head[there]]


def _pairs(*pairs: tuple[Ids, Ids]) -> list[Ids]:
    """Pairs of numbers, each as one number that identifies the pair."""
    parts = [
        np.unique(np.concatenate([pair[side] for pair in pairs]), return_inverse=True)[1]
        for side in (0, 1)
    ]
    whole = parts[0].astype(np.int64) * (int(parts[1].max(initial=0)) + 1) + parts[1]
    ends = np.cumsum([len(pair[0]) for pair in pairs])[:-1]
    return [np.asarray(each, np.int64) for each in np.split(whole, ends)]
