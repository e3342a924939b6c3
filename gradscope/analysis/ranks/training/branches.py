"""Where ranks took different ways: branches and loops, found from the lines that each has run."""

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
LEAVES_A_ROUND = (ast.Return, ast.Break, ast.Continue)


@dataclass(frozen=True, slots=True)
class Arm:
    """The statements that run in one case of an `if`."""

    first: int
    last: int
    ends: type[ast.stmt]  # of its last statement: after some, what follows does not run

    def has(self, line: int) -> bool:
        return self.first <= line <= self.last


@dataclass(frozen=True, slots=True)
class Branch:
    """An `if`, a `match`, or a handler of a `try`."""

    line: int
    end: int  # of the function that it is in
    arms: tuple[Arm, ...]


def branches(tree: ast.Module) -> Iterator[Branch]:
    """All branches of a file, those of a function in the order of lines."""
    for _, body in functions(tree):
        end = max((_end(each) for each in body), default=0)
        for each in own_statements(body):
            for line, ways in _branches(each):
                yield Branch(line, end, tuple(_arm(way) for way in ways if way))


@dataclass(frozen=True, slots=True)
class Rounds:
    """A loop."""

    line: int
    end: int


def loops(tree: ast.Module) -> Iterator[Rounds]:
    """All loops of a file, an outer one before those inside it."""
    for _, body in functions(tree):
        for each in own_statements(body):
            if isinstance(each, ast.For | ast.AsyncFor | ast.While):
                yield Rounds(each.lineno, _end(each))


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
        if any(arm.ends in LEAVES and any(map(arm.has, only_here)) for arm in each.found.arms)
    ]
    return max(left, key=lambda each: each.found.line).site if left else None


def skipped_at(trace: Trace, site: Site) -> Site | None:
    """The last branch before a line of a loop that can leave a round of it before that line."""
    first = max((each.found.line for each in _loops_around(trace, site)), default=site.line)
    skips = [
        each
        for each in trace.once(SourceFiles).each(branches)
        if each.file.name == site.file and first < each.found.line < site.line
        if any(arm.ends is ast.Continue and arm.last < site.line for arm in each.found.arms)
    ]
    return skips[-1].site if skips else None


def loop_around(trace: Trace, site: Site) -> Site | None:
    """The innermost loop around a line."""
    around = _loops_around(trace, site)
    return around[-1].site if around else None


def is_after_the_loops(trace: Trace, line: Site, site: Site) -> bool:
    """Whether a line is below all loops around another one, in the same file."""
    around = _loops_around(trace, site)[:1]
    return any(each.file.name == line.file and line.line > each.found.end for each in around)


@dataclass(frozen=True, slots=True)
class EarlyEnd:
    """A branch that leaves a loop, or a round of it, and the statement with which it does."""

    branch: Site
    leaves: Site


def ending_early(trace: Trace, site: Site) -> EarlyEnd | None:
    """The only branch in the loops around a line that leaves them, or a round of them."""
    around = _loops_around(trace, site)
    if not around:
        return None
    outer = around[0].found
    exits = [
        (each, [arm.last for arm in each.found.arms if arm.ends in LEAVES_A_ROUND])
        for each in trace.once(SourceFiles).each(branches)
        if each.file.name == site.file and outer.line < each.found.line <= outer.end
    ]
    exits = [(each, lines) for each, lines in exits if lines]
    if len(exits) != 1:
        return None
    [(each, lines)] = exits
    return EarlyEnd(each.site, each.file.site(lines[0]))


def _loops_around(trace: Trace, site: Site) -> list[InSource[Rounds]]:
    """The loops around a line, the outermost first."""
    return [
        each
        for each in trace.once(SourceFiles).each(loops)
        if each.file.name == site.file and each.found.line < site.line <= each.found.end
    ]


def _branches(statement: ast.stmt) -> Iterator[tuple[int, list[list[ast.stmt]]]]:
    """The lines of the branches of a statement, and the statements of each of their cases."""
    match statement:
        case ast.If(body=body, orelse=otherwise):
            yield statement.lineno, [body, otherwise]
        case ast.Match(cases=cases):
            yield statement.lineno, [case.body for case in cases]
        case ast.Try(handlers=handlers):
            for handler in handlers:
                yield handler.lineno, [handler.body]


def _arm(statements: Sequence[ast.stmt]) -> Arm:
    last = statements[-1]
    return Arm(statements[0].lineno, _end(last), type(last))


def _end(statement: ast.stmt) -> int:
    return statement.end_lineno or statement.lineno
