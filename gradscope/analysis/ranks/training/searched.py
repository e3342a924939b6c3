"""Models of DistributedDataParallel that look for unused parameters in each step, and have none.

Whether a later step may leave out a parameter is inferred from the program: a model is left out
here if a line that has created a node of its graph is in a branch, or may be skipped by one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gradscope.analysis.identity.leaves import fill_leaves
from gradscope.analysis.identity.sites import Site, is_installed, own_site
from gradscope.analysis.ranks.merging.one_rank import RankPart, parts
from gradscope.analysis.ranks.training.branches import LEAVES, Branch, branches
from gradscope.analysis.ranks.whose import OK, endings
from gradscope.analysis.source.files import InSource, SourceFiles
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import (
    NONE,
    Accumulate,
    Frame,
    GraphTask,
    Node,
    ProcessGroup,
    Replicated,
    Source,
)
from gradscope.trace.trace import Trace

FEWEST = 5
"""Least number of backwards of each rank."""


@dataclass(frozen=True, slots=True)
class NeedlessSearch:
    """A model all of whose parameters got a gradient in each backward of all ranks."""

    part: RankPart  # of the first rank
    site: Site  # where it was made
    parameters: tuple[int, ...]  # there
    backwards: int  # of each rank, at least


def needless_searches(trace: Trace) -> tuple[NeedlessSearch, ...]:
    """One for each such model; none if a trace is cut off, or a rank has none or has failed."""
    if trace.truncated or any(ending != OK for ending in endings(trace).values()):
        return ()
    models: dict[tuple[str, tuple[int, ...], int], list[tuple[RankPart, Replicated]]] = {}
    for part in trace.once(parts):
        groups = {row.id: row for row in part.trace.rows(ProcessGroup)}
        for number, row in enumerate(part.trace.rows(Replicated)):
            if row.group in groups:
                group = groups[row.group]
                models.setdefault((group.name, group.members, number), []).append((part, row))
    found = (_found(members, ranks) for (_, members, _), ranks in models.items())
    return tuple(each for each in found if each is not None)


def _found(
    members: tuple[int, ...], ranks: list[tuple[RankPart, Replicated]]
) -> NeedlessSearch | None:
    if len(ranks) < len(members) or any(row.searches != 1 for _, row in ranks):
        return None
    many = []
    for part, row in ranks:
        tasks = _all_used(part.trace, row.parameters)
        if len(tasks) < FEWEST or _may_differ(part.trace, tasks):
            return None
        many.append(len(tasks))
    part, row = ranks[0]
    return NeedlessSearch(part, own_site(part.trace, row.stack), row.parameters, min(many))


def _all_used(trace: Trace, parameters: tuple[int, ...]) -> list[int]:
    """The backwards that reached the model; empty if one of them has not reached all of it."""
    events, tasks = trace.table(Accumulate), trace.table(GraphTask)
    chosen = np.isin(events["tensor"], parameters)
    reached: dict[int, set[int]] = {}
    for task, tensor in zip(
        events["task"][chosen].tolist(), events["tensor"][chosen].tolist(), strict=True
    ):
        reached.setdefault(task, set()).add(tensor)
    whole = all(
        len(each) == len(parameters) and tasks.has(task) and tasks.row(task).parent == NONE
        for task, each in reached.items()
    )
    return [*reached] if whole else []


def _may_differ(trace: Trace, tasks: list[int]) -> bool:
    """Whether a line that has made the graphs of these backwards may be left out in others."""
    nodes, table = trace.table(Node), trace.table(GraphTask)
    steps = [table.row(task).step for task in tasks]
    made = np.isin(nodes["step"], steps) & ~fill_leaves(trace) & (nodes["stack"] != NONE)
    back = {line for task in tasks for line in _lines(trace.frames(table.row(task).stack))}
    lines = {
        line
        for stack in distinct(nodes["stack"][made]).tolist()
        for line in _lines(trace.frames(stack))
    }
    known = {row.file for row in trace.rows(Source)}
    if not lines or any(is_installed(file) or file not in known for file, _ in lines):
        return True
    files = trace.once(SourceFiles)
    if any((each.file.name, each.found.line) in lines for each in files.each(_chosen)):
        return True
    return any(_may_skip(each, line, back) for each in files.each(branches) for line in lines)


@dataclass(frozen=True, slots=True)
class _ChosenLine:
    """A line with an expression that may leave out a part, or inside of a `while`."""

    line: int


def _chosen(tree: ast.Module) -> Iterator[_ChosenLine]:
    for each in ast.walk(tree):
        first = last = 0
        if isinstance(each, ast.IfExp | ast.BoolOp):
            first, last = each.lineno, each.end_lineno or each.lineno
        elif isinstance(each, ast.While) and ast.unparse(each.test) not in ("True", "1"):
            first, last = each.body[0].lineno, each.body[-1].end_lineno or each.lineno
        yield from map(_ChosenLine, range(first, last + 1 if first else first))


def _lines(frames: tuple[Frame, ...]) -> Iterator[tuple[str, int]]:
    return ((frame.file, frame.line) for frame in frames)


def _may_skip(each: InSource[Branch], line: tuple[str, int], back: set[tuple[str, int]]) -> bool:
    """Whether a branch may skip this line, and not the backward, too."""
    (file, number), branch = line, each.found
    if file != each.file.name or not branch.line <= number <= branch.end:
        return False
    below = [other for name, other in back if name == file and branch.line < other <= branch.end]
    for arm in branch.arms:
        if arm.has(number):
            return not any(map(arm.has, below))
        if arm.ends in LEAVES and arm.last < number and not any(arm.last < at for at in below):
            return True
    return False
