"""The line at which two ranks may have parted, inferred from where each of them was.

A rank that is at a line is inside the branches around it, and has not left the function, or the
loop, before it. What another rank did at that time is not in the trace line by line; so this is
the most likely place, not the only one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

import numpy as np

from gradscope.analysis.identity.sites import Site, site_at
from gradscope.analysis.ranks.whose import RankOf
from gradscope.analysis.source.files import InSource, SourceFiles
from gradscope.analysis.source.functions import all_statements, functions, own_statements
from gradscope.trace.schema import NONE, Frame, GraphTask, Op
from gradscope.trace.trace import Trace

OF_RANKS = re.compile(r"rank|is_(main|master)|main_process|is_global_zero", re.IGNORECASE)
"""Names in the condition of a branch that depends on the rank."""


DEEPEST = 6
"""Largest number of lines of a stack with those that call it."""


@dataclass(frozen=True, slots=True)
class LinesUnder:
    """The lines of an arm of an `if`, of a handler of exceptions, of what it handles, or a loop."""

    line: int  # of its head; of "try", of its first handler
    first: int
    last: int
    kind: str  # "if", "except", "try" or "loop"
    of_ranks: bool = False  # its condition names the rank
    leaves: int = NONE  # the line at which it leaves a loop or a function; NONE: it does not
    how: str = ""  # "Break", "Continue" or "Return"
    raises: bool = False  # it ends by raising an exception

    def has(self, line: int) -> bool:
        return self.first <= line <= self.last


@dataclass(frozen=True, slots=True)
class NamedCall:
    """A call, and the function that it is in."""

    line: int
    name: str
    inside: str


_Frames = Sequence[Frame]
_Found = list[InSource[LinesUnder]]


def parted_at(trace: Trace, here: int, there: int) -> Site | None:
    """Where a rank at the stack `here` may have parted from one that was at `there`, if known.

    The branch around the one that depends on the rank; else where the other rank, or this one,
    may have left a loop or a function before; else another branch around it.
    """
    every = trace.once(SourceFiles).each(blocks)
    frames = trace.frames(here) if here != NONE else ()
    others = trace.frames(there) if there != NONE else ()
    around = list(_around(every, frames, others))
    by_rank = [each for each in around if each.found.of_ranks]
    found = by_rank or _of_loops(every, frames, others) or _left(every, frames) or around
    if not found:
        return None
    each = found[0]
    line = each.found.leaves if each.found.kind == "except" else each.found.line
    return each.file.site(line)


def left_at(trace: Trace, here: int, there: int) -> Site | None:
    """Where a rank that has ended may have left the loops around the stack `here`.

    `there`: its last line. The first `break` or `return` that follows it in a round of the loops;
    else the first exception, if it is caught around them; else the loop.
    """
    every = trace.once(SourceFiles).each(blocks)
    frames = _with_callers(trace, trace.frames(here) if here != NONE else ())
    others = trace.frames(there) if there != NONE else ()
    for frame in reversed(frames):
        own = [each for each in every if each.file.name == frame.file]
        around = [each for each in own if each.found.kind == "loop" and each.found.has(frame.line)]
        if not around:
            continue
        whole = min(around, key=lambda each: each.found.line)
        inside = [each for each in own if whole.found.has(each.found.line)]
        leaving = [each for each in inside if each.found.how in ("Break", "Return")]
        if not leaving and _is_tried(every, frames, whole):
            leaving = [each for each in inside if each.found.raises]
        if not leaving and any(each.found.how == "Continue" for each in inside):
            return None  # it may have left out what the others did, and ended as they do
        last = max((each.line for each in others if each.file == frame.file), default=NONE)
        after = [each for each in leaving if each.found.last >= last]
        found = next(iter(after or leaving), whole)
        return found.file.site(
            found.found.leaves if found.found.kind == "except" else found.found.line
        )
    return None


def lines_of(trace: Trace, stack: int) -> list[Site]:
    """The lines of a stack and those that call it, as far as known, the innermost first."""
    frames = _with_callers(trace, trace.frames(stack))
    return [site_at(trace, each.file, each.line, each.text) for each in frames]


def _with_callers(trace: Trace, frames: _Frames) -> _Frames:
    """The frames, and the only line of the program that calls the outermost one, and so on."""
    found = [*frames]
    calls = trace.once(SourceFiles).each(named_calls)
    while found and len(found) < DEEPEST:
        function = found[-1].function
        name = function.rpartition(".")[2]
        sites = {(each.file.name, each.found) for each in calls if each.found.name == name}
        if len(sites) != 1:
            break
        [(file, call)] = sites
        if call.inside == function:
            break
        found.append(Frame(NONE, file, call.line, call.inside))
    return found


def named_calls(tree: ast.Module) -> Iterator[NamedCall]:
    """The calls of a file, by the name of what is called."""
    for inside, body in functions(tree):
        for statement in own_statements(body):
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            for each in ast.walk(statement):
                if isinstance(each, ast.Call):
                    name = ast.unparse(each.func).rpartition(".")[2]
                    yield NamedCall(each.lineno, name, inside)


def _is_tried(
    every: Iterable[InSource[LinesUnder]], frames: _Frames, loop: InSource[LinesUnder]
) -> bool:
    """Whether exceptions are caught around a loop, by the function that has it or a caller."""
    return any(
        each.found.kind == "try"
        and each.file.name == frame.file
        and each.found.has(frame.line)
        and not (each.file.name == loop.file.name and loop.found.has(each.found.first))
        for frame in frames
        for each in every
    )


def last_seen(trace: Trace, rank: int) -> tuple[int, int]:
    """When a rank began its last call or backward, outside of collectives, and the stack."""
    whose, found = trace.once(RankOf), []
    for kind in (Op, GraphTask):
        table = trace.table(kind)
        of = (whose.of(kind.TABLE, table["id"]) == rank) & (table["stack"] != NONE)
        rows = np.flatnonzero(of)
        if len(rows):
            last = rows[np.argmax(table["begin"][rows])]
            found.append((int(table["begin"][last]), int(table["stack"][last])))
    return max(found, default=(NONE, NONE))


def blocks(tree: ast.Module) -> Iterator[LinesUnder]:
    """All arms, handlers and loops of a file."""
    for each in all_statements(tree):
        if isinstance(each, ast.If):
            named = bool(OF_RANKS.search(ast.unparse(each.test)))
            yield _block(each.lineno, each.body, "if", of_ranks=named)
            if each.orelse:
                yield _block(each.lineno, each.orelse, "if", of_ranks=named)
        elif isinstance(each, ast.Try):
            if each.handlers:
                tried = _block(each.handlers[0].lineno, each.body, "try")
                yield replace(tried, leaves=NONE, how="", raises=False)
            for handler in each.handlers:
                yield _block(handler.lineno, handler.body, "except")
        elif isinstance(each, ast.For | ast.AsyncFor | ast.While):
            yield _block(each.lineno, each.body, "loop")


def _block(line: int, body: list[ast.stmt], kind: str, *, of_ranks: bool = False) -> LinesUnder:
    last = body[-1]
    leaves = isinstance(last, ast.Return | ast.Continue | ast.Break)
    at, how = (last.lineno, type(last).__name__) if leaves else (NONE, "")
    end, raises = last.end_lineno or last.lineno, isinstance(last, ast.Raise)
    return LinesUnder(line, body[0].lineno, end, kind, of_ranks, at, how, raises)


def _around(
    every: Iterable[InSource[LinesUnder]], frames: _Frames, others: _Frames
) -> Iterator[InSource[LinesUnder]]:
    """The arms that contain a line of the stack and none of the other's, the innermost first."""
    for frame in frames:
        there = [other.line for other in others if other.file == frame.file]
        inside = [
            each
            for each in every
            if each.file.name == frame.file
            and each.found.kind == "if"
            and each.found.has(frame.line)
            and not any(map(each.found.has, there))
        ]
        yield from sorted(inside, key=lambda each: -each.found.line)


def _of_loops(every: Iterable[InSource[LinesUnder]], frames: _Frames, others: _Frames) -> _Found:
    """Where a loop was left, that only one of the ranks is in: what leaves it, or the loop."""
    for frame in frames:
        own = [each for each in every if each.file.name == frame.file]
        for other in others:
            if (other.file, other.function) != (frame.file, frame.function):
                continue
            loops = [
                each
                for each in own
                if each.found.kind == "loop"
                and each.found.has(frame.line) != each.found.has(other.line)
            ]
            if not loops:
                continue
            whole = min(loops, key=lambda each: each.found.line)
            leaving = [
                each
                for each in own
                if each.found.leaves != NONE and whole.found.has(each.found.leaves)
            ]
            for how in ("Break", "Continue"):
                of = [each for each in leaving if each.found.how == how]
                if of:
                    return of[-1:]
            return [max(loops, key=lambda each: each.found.line)]
    return []


def _left(every: Iterable[InSource[LinesUnder]], frames: _Frames) -> _Found:
    """What may leave a loop or a function before a line of the stack, the nearest first."""
    for frame in frames:
        own, line = [each for each in every if each.file.name == frame.file], frame.line
        before = [
            each
            for each in own
            if each.found.leaves != NONE and each.found.last < line and _skips(each, own, line)
        ]
        if before:
            return before[-1:]
    return []


def _skips(leaving: InSource[LinesUnder], own: _Found, line: int) -> bool:
    """Whether a line is not run in the same round, or call, after a block that leaves it."""
    at = leaving.found.leaves
    if leaving.found.how == "Return":
        around = [each for each in ast.walk(leaving.file.tree) if _is_function_around(each, at)]
        inner = max(around, key=lambda each: each.lineno, default=None)
        return inner is not None and line <= (inner.end_lineno or at)
    loops = [each.found for each in own if each.found.kind == "loop" and each.found.has(at)]
    return bool(loops) and max(loops, key=lambda loop: loop.line).has(line)


def _is_function_around(
    node: ast.AST, line: int
) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef]:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return node.lineno <= line <= (node.end_lineno or line)
