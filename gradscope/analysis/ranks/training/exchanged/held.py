"""Ranks that pass the same tensors to a collective in different orders.

A tensor is known by the parameter whose gradient or values it is, by the key under which a dict
holds it, or by the variable of the loop over a set in which it is passed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradscope.analysis.identity.sites import Site, own_site
from gradscope.analysis.ranks.collectives import GroupCalls, RankCall, grouped_calls
from gradscope.analysis.source.files import SourceFiles
from gradscope.trace.schema import Collective, Tensor
from gradscope.trace.trace import Trace

GRADIENTS = "gradients"
OF_LOOP = re.compile(r"\w+ = ")
"""Beginning of what the recording says of the variable of a loop."""


@dataclass(frozen=True, slots=True)
class HeldTensor:
    """A call of one rank, and where it holds the tensor that it passes."""

    call: RankCall
    held_as: str  # "totals['depth']", "the gradient of fc.weight", "name = 'depth'"


@dataclass(frozen=True, slots=True)
class OtherOrder:
    """Calls of one line, whose tensors ranks passed in different orders."""

    group: GroupCalls
    number: int  # of the first call that differs, from 1
    tensors: tuple[HeldTensor, ...]  # of that call, by rank
    many: int  # how many calls differ
    site: Site
    loop: Site | None = None  # the loop over a set around it


@dataclass(frozen=True, slots=True)
class LoopsOverSet:
    """The lines of a loop that goes through a set."""

    line: int
    last: int


Together = tuple[HeldTensor, ...]


def other_orders(trace: Trace) -> tuple[OtherOrder, ...]:
    """Each line at which all ranks passed the same tensors, in different orders."""
    held = _held(trace)
    found: dict[Site, OtherOrder] = {}
    for group in trace.once(grouped_calls) if held else ():
        for number, several in _passes(trace, group, held):
            site = own_site(trace, several[0][0].call.stack)
            each = _differs(trace, group, number, several, site)
            if each is not None:
                found.setdefault(each.site, each)
    return tuple(found.values())


def _held(trace: Trace) -> dict[int, str]:
    """How the tensor of each collective of the program is known."""
    names, found = _names(trace), {}
    for row in trace.rows(Collective):
        own = len(row.parameters) == 1 and not row.caller and row.holds
        if own and (name := names.get(row.parameters[0])):
            found[row.span] = f"the gradient of {name}" if row.holds == GRADIENTS else name
        elif row.held_as:
            found[row.span] = row.held_as
    return found


def _names(trace: Trace) -> dict[int, str]:
    table = trace.table(Tensor)
    return dict(zip(table["id"].tolist(), table.texts("name"), strict=True))


def loop_over_set(trace: Trace, site: Site) -> Site | None:
    """The innermost loop over a set around a line."""
    around = [
        each
        for each in trace.once(SourceFiles).each(loops_over_sets)
        if each.file.name == site.file and each.found.line < site.line <= each.found.last
    ]
    inner = max(around, key=lambda each: each.found.line, default=None)
    return inner.file.site(inner.found.line) if inner else None


def loops_over_sets(tree: ast.Module) -> Iterator[LoopsOverSet]:
    """Loops over what the source says is a set: an expression, or a variable that is given one."""
    named = {
        target.id
        for each in ast.walk(tree)
        if isinstance(each, ast.Assign) and _is_set(each.value, frozenset())
        for target in each.targets
        if isinstance(target, ast.Name)
    }
    for each in ast.walk(tree):
        if isinstance(each, ast.For) and _is_set(each.iter, frozenset(named)):
            yield LoopsOverSet(each.lineno, each.end_lineno or each.lineno)


def _is_set(value: ast.expr, named: frozenset[str]) -> bool:
    match value:
        case ast.Set() | ast.SetComp() | ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.Name(id=name):
            return name in named
        case ast.Call(func=ast.Name(id="list" | "tuple" | "enumerate"), args=[inner]):
            return _is_set(inner, named)
        case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.Sub()):
            return _is_set(left, named)
    return False


def _passes(
    trace: Trace, group: GroupCalls, held: dict[int, str]
) -> Iterator[tuple[int, list[Together]]]:
    """Consecutive calls of one line with different tensors, with the number of the first."""
    first, passing, seen, line = 0, list[Together](), set[tuple[int, str]](), Site()
    for number, calls in enumerate(group.together, 1):
        those = tuple(HeldTensor(call, held.get(call.span, "")) for call in calls)
        sites = {own_site(trace, call.stack) for call in calls}
        keys = {(each.call.rank, each.held_as) for each in those}
        whole = all(each.held_as for each in those) and len(sites) == 1
        if passing and (not whole or line not in sites or keys & seen):
            yield first, passing
            passing, seen = [], set()
        if whole:
            if not passing:
                first, [line] = number, sites
            passing.append(those)
            seen |= keys
    if passing:
        yield first, passing


def _differs(
    trace: Trace, group: GroupCalls, number: int, several: Sequence[Together], site: Site
) -> OtherOrder | None:
    other = [at for at, those in enumerate(several) if len({each.held_as for each in those}) > 1]
    by_rank: dict[int, set[str]] = {}
    for those in several:
        for each in those:
            by_rank.setdefault(each.call.rank, set()).add(each.held_as)
    same = len({frozenset(keys) for keys in by_rank.values()}) == 1
    if not other or not same:
        return None
    loop = loop_over_set(trace, site)
    if loop is None and OF_LOOP.match(several[0][0].held_as):
        return None  # ranks may go through their data in other orders
    return OtherOrder(group, number + other[0], several[other[0]], len(other), site, loop)
