"""Training without an optimizer: the program itself updates parameters after backwards."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.identity.sites import at, site_of
from gradscope.analysis.program.acts import Done
from gradscope.analysis.program.loop import ADDED, CLEARING, Loop
from gradscope.analysis.program.training import Training
from gradscope.analysis.rules.loop.words import line
from gradscope.analysis.rules.registry import Found
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import (
    NONE,
    Accumulate,
    ActFacts,
    DataSetAct,
    DataWrittenAct,
    GradZeroedAct,
    Tensor,
    Version,
)
from gradscope.trace.trace import Trace

GRADIENT_WRITTEN = re.compile(r"\.grad(\.data)?(\[[^\]]*\])?(\.\w+_\(|\s*[-+*/]?=(?!=))")
MANY = 3
"""Least number of updates, and of backwards that add to old gradients."""


def never_cleared(trace: Trace, loop: Loop) -> Iterator[Found]:
    """Leaves that are updated after each backward, and whose gradients are never cleared."""
    if loop.acts.optimizers:
        return
    training = trace.once(Training)
    versions, events = trace.table(Version), trace.table(Accumulate)
    of_data: dict[int, list[Done[ActFacts]]] = defaultdict(list)
    for act in loop.acts.of(DataSetAct, DataWrittenAct):
        for leaf in act.tensors:
            of_data[leaf].append(act)
    if any(not act.tensors for act in loop.acts.of(GradZeroedAct)):
        return  # some were cleared, unknown which
    cleared = {tensor for act in loop.acts.of(*CLEARING) for tensor in act.tensors}
    lost: dict[int, list[int]] = {}  # by the line of the update
    for leaf in sorted(training.reached & (training.written | {*of_data}) - cleared):
        its = events["tensor"] == leaf
        onto_old = its & np.isin(events["how"], ADDED)
        first = int(events["t"][its].min()) if its.any() else 0
        updates = versions["stack"][(versions["tensor"] == leaf) & (versions["t"] > first)]
        stacks = updates.tolist() or [act.stack for act in of_data[leaf] if act.t > first]
        few = onto_old.sum() < MANY or len(stacks) < MANY or its.sum() > onto_old.sum() + 1
        if not few and not _may_be_cleared(trace, leaf, first, of_data[leaf]):
            lost.setdefault(stacks[0], []).append(leaf)
    if lost:
        yield _found(training, loop, lost)


def _may_be_cleared(trace: Trace, leaf: int, first: int, of_data: list[Done[ActFacts]]) -> bool:
    """Whether any other tensor of the same shape is written to: it may be the gradient."""
    tensors, versions = trace.table(Tensor), trace.table(Version)
    later = (versions["t"] > first) & (versions["op"] != NONE) & (versions["tensor"] != leaf)
    shape = tensors.row(leaf).shape
    data = {site_of(trace, act.stack).place for act in of_data}
    sites = {each: site_of(trace, each) for each in distinct(versions["stack"][later]).tolist()}
    updates = [each for each, at in sites.items() if at.place in data or _reads_only(at.text)]
    later &= ~np.isin(versions["stack"], updates)
    others = set(versions["tensor"][later].tolist())
    rows = [tensors.row(each) for each in others if tensors.has(each)]
    return any(row.shape == shape and not (row.leaf and row.requires_grad) for row in rows)


def _reads_only(text: str) -> bool:
    """Whether a line uses `.grad` in an update without writing to `.grad`."""
    return ".grad" in text and GRADIENT_WRITTEN.search(text) is None


def _found(training: Training, loop: Loop, lost: dict[int, list[int]]) -> Found:
    trace = training.trace
    leaves = {leaf for several in lost.values() for leaf in several}
    events = trace.table(Accumulate)
    task = int(events["task"][np.flatnonzero(np.isin(events["tensor"], list(leaves)))[-1]])
    site = site_of(trace, loop.tasks[task][1])
    updated = site_of(trace, next(iter(lost)))
    return Found(
        message=f"gradients add up: the backward{at(site)} adds to those of "
        f"{training.named(leaves)} that the update{at(updated)} already used; nothing clears "
        "them",
        site=site,
        evidence=(
            Evidence("graph_task", task),
            *(Evidence("tensor", leaf) for leaf in sorted(leaves)[:2]),
        ),
        why="a backward adds to `.grad`; no line sets it to None or zeros, so each update uses "
        "the sum of all gradients so far",
        fix=f"set it to None after {line(updated, 'the update')}: `parameter.grad = None`",
        certainty=Certainty.INFERRED,
    )
