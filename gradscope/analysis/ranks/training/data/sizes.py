"""Losses that are means over different numbers of values, on ranks whose gradients are averaged.

A mean is a call that takes one, or a division of the loss by a tensor with one whole number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gradscope.analysis.identity.steps import step_numbers
from gradscope.analysis.program.arguments import arguments_of
from gradscope.analysis.ranks.merging.one_rank import equal_parts, parts
from gradscope.analysis.ranks.replicas import Group, replicated
from gradscope.analysis.rules.loop.accumulation import ends_in_mean
from gradscope.trace.schema import NONE, GraphTask, Node, Op, Place, Tensor, Value
from gradscope.trace.trace import Trace

DIVIDED = 2
"""Number of tensors that a division takes."""

FEWEST = 4
"""Number of backwards from which on it is no coincidence that one rank has the fewest values."""

MUCH = 2.0
"""Factor between two counts from which on they do not differ by chance."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A backward that began at a mean."""

    op: int  # that computed it
    over: str  # the shape of what it took, "[8, 2]", or the number that it divided by
    count: float  # the number of values


@dataclass(frozen=True, slots=True)
class Sizes:
    """The first step in which ranks took means over different shapes."""

    step: int  # its number
    means: Mapping[int, Mean]  # by rank
    steps: int  # number of steps in which they differed
    of: int  # number of steps that were compared
    fewest: int = NONE  # the rank whose count was the smallest by far in each; NONE: no such rank


def unequal_sizes(trace: Trace) -> tuple[Sizes, ...]:
    """One for each group of ranks of DistributedDataParallel whose batches had different sizes."""
    if "ranks" not in trace.meta or len(trace.once(equal_parts)) == 1:
        return ()
    by_group: dict[Group, dict[int, dict[tuple[int, int], Mean]]] = {}
    for part in trace.once(parts):
        means = dict(_means(part.trace))
        for group, _ in part.trace.once(replicated):
            by_group.setdefault(group, {})[part.rank] = means
    found = (_compared(ranks) for ranks in by_group.values())
    return tuple(each for each in found if each is not None)


def _means(trace: Trace) -> Iterator[tuple[tuple[int, int], Mean]]:
    """By the number of a step, and that of the backward in it."""
    numbers = step_numbers(trace)
    many: dict[int, int] = {}
    for task in sorted(trace.rows(GraphTask), key=lambda row: (row.begin, row.id)):
        if task.parent != NONE or task.step not in numbers:
            continue
        number = many.get(task.step, 0)
        many[task.step] = number + 1
        mean = _mean(trace, task)
        if mean is not None:
            yield (numbers[task.step], number), mean


def _mean(trace: Trace, task: GraphTask) -> Mean | None:
    """The mean at which a backward began; None: it began elsewhere, or it is not known."""
    nodes, ops, tensors = trace.table(Node), trace.table(Op), trace.table(Tensor)
    if len(task.roots) != 1 or not nodes.has(task.roots[0]):
        return None
    root = nodes.row(task.roots[0])
    op = root.op
    if not ops.has(op):
        return None
    row = ops.row(op)
    if row.name == "div" and len(row.inputs) == DIVIDED:
        many = arguments_of(root.arguments).get("other")
        if not isinstance(many, int | float):
            many = trace.once(_numbers).get(row.inputs[1], math.nan)
        return Mean(op, f"{many:.0f}", many) if many > 1 and many == round(many) else None
    if not (row.inputs and tensors.has(row.inputs[0]) and ends_in_mean(trace, task.id)):
        return None
    shape = tensors.row(row.inputs[0]).shape
    return Mean(op, str([*shape]), float(math.prod(shape)))


def _numbers(trace: Trace) -> dict[int, float]:
    """The values of tensors with one element that no call with a graph has computed."""
    values = trace.table(Value)
    chosen = (values["place"] == Place.LEAF) & (values["count"] == 1)
    tensors, means = values["tensor"][chosen].tolist(), values["mean"][chosen].tolist()
    return dict(zip(tensors, means, strict=True))


def _compared(ranks: Mapping[int, Mapping[tuple[int, int], Mean]]) -> Sizes | None:
    if len(ranks) < 2:
        return None
    common = sorted(set[tuple[int, int]].intersection(*map(set, ranks.values())))
    differ = [key for key in common if len({means[key].over for means in ranks.values()}) > 1]
    if not differ:
        return None
    return Sizes(
        differ[0][0],
        {rank: means[differ[0]] for rank, means in ranks.items()},
        len({step for step, _ in differ}),
        len({step for step, _ in common}),
        _fewest([{rank: means[key] for rank, means in ranks.items()} for key in common]),
    )


def _fewest(each: Sequence[Mapping[int, Mean]]) -> int:
    """The rank that always had the fewest values, and another MUCH more; NONE: there is none."""
    ranks = {min(means, key=lambda rank: means[rank].count) for means in each}
    apart = all(
        max(mean.count for mean in means.values())
        >= MUCH * min(mean.count for mean in means.values())
        for means in each
    )
    return ranks.pop() if len(ranks) == 1 and apart and len(each) >= FEWEST else NONE
