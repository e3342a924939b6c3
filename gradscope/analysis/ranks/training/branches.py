"""The `if` at which two ranks took different ways, found from the lines that each of them ran."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gradscope.analysis.identity.sites import Site
from gradscope.analysis.source.files import InSource, SourceFiles
from gradscope.analysis.source.functions import functions, own_statements
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, Act, Node, Op
from gradscope.trace.trace import Trace

Line = tuple[str, int]
"""A file and the number of a line."""

LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


@dataclass(frozen=True, slots=True)
class Arm:
    """The statements that run in one case of an `if`."""

    first: int
    last: int
    leaves: bool  # what follows the `if` does not run after them

    def has(self, line: int) -> bool:
        return self.first <= line <= self.last


@dataclass(frozen=True, slots=True)
class Branch:
    """An `if`, or a `match`."""

    line: int
    end: int  # of the function that it is in
    arms: tuple[Arm, ...]


def branches(tree: ast.Module) -> Iterator[Branch]:
    """All branches of a file, those of a function in the order of lines."""
    for _, body in functions(tree):
        found = [each for each in own_statements(body) if isinstance(each, ast.If | ast.Match)]
        end = max((_end(each) for each in body), default=0)
        for each in found:
            several = (
                [each.body, each.orelse]
                if isinstance(each, ast.If)
                else [case.body for case in each.cases]
            )
            yield Branch(each.lineno, end, tuple(_arm(arm) for arm in several if arm))


def lines_run(trace: Trace, step: int) -> set[Line]:
    """The lines of the calls, nodes and acts of a step, and the lines that called them."""
    tables = (trace.table(Op), trace.table(Node), trace.table(Act))
    stacks = [table["stack"][table["step"] == step] for table in tables]
    every = distinct(np.concatenate(stacks)).tolist()
    return {
        (frame.file, frame.line)
        for stack in every
        if stack != NONE
        for frame in trace.frames(stack)
    }


def not_run(trace: Trace, stack: int, ran: set[Line]) -> Line | None:
    """The outermost line of a stack that is not among the lines that ran."""
    frames = trace.frames(stack)[::-1]
    lines = ((frame.file, frame.line) for frame in frames)
    return next((line for line in lines if line not in ran), None)


def parted_at(trace: Trace, missed: Line, ran: set[Line], others: set[Line]) -> Site | None:
    """The branch because of which a line did not run.

    `ran`: the lines of the rank that did not run it; `others`: those of a rank that did.
    """
    file, line = missed
    every = [
        each
        for each in trace.once(SourceFiles).each(branches)
        if each.file.name == file and each.found.line < line <= each.found.end
    ]
    here = {number for name, number in ran if name == file}
    only_here = here - {number for name, number in others if name == file}
    around = [
        each
        for each in every
        if any(arm.has(line) and not any(map(arm.has, here)) for arm in each.found.arms)
    ]
    if around:
        return min(around, key=lambda each: each.found.line).site
    return _left_before(every, only_here)


def _left_before(every: Sequence[InSource[Branch]], only_here: set[int]) -> Site | None:
    """The last branch of these that left the function, or a round of a loop, on this rank only."""
    left = [
        each
        for each in every
        if any(arm.leaves and any(map(arm.has, only_here)) for arm in each.found.arms)
    ]
    return max(left, key=lambda each: each.found.line).site if left else None


def _arm(statements: Sequence[ast.stmt]) -> Arm:
    last = statements[-1]
    return Arm(statements[0].lineno, _end(last), isinstance(last, LEAVES))


def _end(statement: ast.stmt) -> int:
    return statement.end_lineno or statement.lineno
