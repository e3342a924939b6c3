"""Losses divided by the number of ranks, whose gradients DistributedDataParallel averages.

The run shows the number by which a loss was divided, that nothing multiplied it again, that no
collective but those of DistributedDataParallel took part in the backward, and that gradients were
averaged. That the number stands for the ranks is in the source.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gradscope.analysis.identity.sites import Site, own_site
from gradscope.analysis.program.arguments import arguments_of
from gradscope.analysis.ranks.audit import COMBINED, Combining, audits
from gradscope.analysis.ranks.collectives import REDUCES
from gradscope.analysis.ranks.merging.one_rank import RankPart, parts
from gradscope.analysis.ranks.replicas import replicated
from gradscope.analysis.ranks.training.rank_counts import counts_ranks, names_of_rank_counts
from gradscope.analysis.source.files import SourceFiles
from gradscope.trace.schema import NONE, Collective, GraphTask, Node, Op, Phase, Span, Tensor
from gradscope.trace.trace import Trace

DEEPEST = 16
"""Number of calls from the root of a backward at which scalings of a loss are looked for."""


@dataclass(frozen=True, slots=True)
class DividedLoss:
    """A line that divides losses by the number of ranks, or a multiple of it."""

    site: Site
    ops: Mapping[int, int]  # by rank, the first call of this line
    by: float  # the number
    size: int  # number of ranks
    backwards: int  # number of backwards of the first rank with this call


@dataclass(frozen=True, slots=True)
class DividesByRanks:
    """A line of the source that divides by the number of ranks."""

    line: int
    last: int  # line of the expression


@dataclass(frozen=True, slots=True)
class _Scaled:
    """A number by which a loss was divided in one backward."""

    op: int
    by: float
    site: Site
    size: int


def divided_losses(trace: Trace) -> tuple[DividedLoss, ...]:
    """One for each line."""
    if len(trace.meta.get("ranks", ())) < 2:
        return ()
    lines = trace.once(SourceFiles).each(divisions_by_ranks)
    if not lines or not _all_averaged(trace):
        return ()
    by_rank = {part.rank: list(_divided(part)) for part in trace.once(parts)}
    first = next(iter(by_rank.values()))
    found = []
    for site in dict.fromkeys(each.site for each in first):
        own = {
            rank: [each for each in several if each.site == site]
            for rank, several in by_rank.items()
        }
        if not all(own.values()) or len({each.by for of in own.values() for each in of}) > 1:
            continue
        if any(
            each.file.name == site.file and each.found.line <= site.line <= each.found.last
            for each in lines
        ):
            one, ops = own[next(iter(own))], {rank: of[0].op for rank, of in own.items()}
            found.append(DividedLoss(site, ops, one[0].by, one[0].size, len(one)))
    return tuple(found)


def _all_averaged(trace: Trace) -> bool:
    """Whether the gradients whose combination can be told were averaged."""
    hows = [each.how for audit in audits(trace) for each in audit.parameters]
    told = {how for how in hows if how in {*COMBINED, Combining.OWN, Combining.APART}}
    return told == {Combining.AVERAGED}


def _divided(part: RankPart) -> Iterator[_Scaled]:
    """The numbers by which losses of a rank were divided, and not multiplied again."""
    trace = part.trace
    sizes = {len(members) for (_, members), _ in trace.once(replicated)}
    if len(sizes) != 1 or (size := sizes.pop()) < 2:
        return
    others = _others(trace)
    for task in trace.rows(GraphTask):
        if task.parent != NONE or any(task.begin < t < task.end for t in others):
            continue
        scalings = list(_scalings(trace, task.roots))
        if any(name == "mul" and _is_multiple(by, size) for _, name, by in scalings):
            continue
        for op, name, by in scalings:
            if name == "div" and _is_multiple(by, size):
                yield _Scaled(op, by, own_site(trace, trace.table(Op).row(op).stack), size)


def _is_multiple(number: float, size: int) -> bool:
    return number >= size and number % size == 0


def _others(trace: Trace) -> list[int]:
    """When collectives began that DistributedDataParallel did not call."""
    own = {row.span for row in trace.rows(Collective) if row.caller == REDUCES}
    return [
        row.begin for row in trace.rows(Span) if row.phase == Phase.COLLECTIVE and row.id not in own
    ]


def _scalings(trace: Trace, roots: tuple[int, ...]) -> Iterator[tuple[int, str, float]]:
    """Calls that computed a loss from single numbers and a constant: the call, its name, that."""
    nodes, ops, tensors = trace.table(Node), trace.table(Op), trace.table(Tensor)
    pending = [nodes.row(root).op for root in roots if nodes.has(root)]
    seen: set[int] = set()
    while pending and len(seen) < DEEPEST:
        id = pending.pop(0)
        if id in seen or not ops.has(id):
            continue
        seen.add(id)
        op = ops.row(id)
        rows = [tensors.row(each) for each in (*op.outputs, *op.inputs) if tensors.has(each)]
        if any(size != 1 for row in rows[:1] for size in row.shape):
            continue
        given = nodes.row(op.node).arguments if nodes.has(op.node) else ""
        number = arguments_of(given).get("other")
        if isinstance(number, int | float):
            yield id, op.name.partition(".")[0].rstrip("_"), float(number)
        pending += [row.op for row in rows if row.op != NONE]


def divisions_by_ranks(tree: ast.Module) -> Iterator[DividesByRanks]:
    """Divisions by the number of ranks, or by a product with it, alone on their lines."""
    named = names_of_rank_counts(tree)
    by_ranks, others = list[DividesByRanks](), set[int]()
    for each in ast.walk(tree):
        if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Div):
            by, divided = each.right, each.left
        elif isinstance(each, ast.AugAssign) and isinstance(each.op, ast.Div):
            by, divided = each.value, each.target
        else:
            continue
        last = each.end_lineno or each.lineno
        if counts_ranks(by, named) and not counts_ranks(divided, named):
            by_ranks.append(DividesByRanks(each.lineno, last))
        else:
            others.update(range(each.lineno, last + 1))
    for found in by_ranks:
        if others.isdisjoint(range(found.line, found.last + 1)):
            yield found
