"""Losses that are means over different numbers of values, on ranks whose gradients are averaged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gradscope.analysis.identity.steps import step_numbers
from gradscope.analysis.ranks.one_rank import parts
from gradscope.analysis.ranks.replicas import Group, replicated
from gradscope.analysis.rules.loop.accumulation import ends_in_mean
from gradscope.trace.schema import NONE, GraphTask, Node, Op, Tensor
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class Mean:
    """A backward that began at a mean."""

    op: int  # that computed it
    over: tuple[int, ...]  # the shape of what it took


@dataclass(frozen=True, slots=True)
class Sizes:
    """The first step in which ranks took means over different shapes."""

    step: int  # its number
    means: Mapping[int, Mean]  # by rank
    steps: int  # number of steps in which they differed
    of: int  # number of steps that were compared


def unequal_sizes(trace: Trace) -> tuple[Sizes, ...]:
    """One for each group of ranks of DistributedDataParallel whose batches had different sizes."""
    if "ranks" not in trace.meta:
        return ()
    by_group: dict[Group, dict[int, dict[tuple[int, int], Mean]]] = {}
    for part in trace.once(parts):
        means = dict(_means(part.trace))
        for group, _ in replicated(part.trace):
            by_group.setdefault(group, {})[part.rank] = means
    found = (_compared(ranks) for ranks in by_group.values())
    return tuple(each for each in found if each is not None)


def _means(trace: Trace) -> Iterator[tuple[tuple[int, int], Mean]]:
    """By the number of a step, and that of the backward in it."""
    nodes, numbers, ops = trace.table(Node), step_numbers(trace), trace.table(Op)
    tensors = trace.table(Tensor)
    many: dict[int, int] = {}
    for task in sorted(trace.rows(GraphTask), key=lambda row: (row.begin, row.id)):
        if task.parent != NONE or task.step not in numbers:
            continue
        number = many.get(task.step, 0)
        many[task.step] = number + 1
        if ends_in_mean(trace, task.id):
            op = nodes.row(task.roots[0]).op
            inputs = ops.row(op).inputs if ops.has(op) else ()
            if inputs and tensors.has(inputs[0]):
                shape = tensors.row(inputs[0]).shape
                yield (numbers[task.step], number), Mean(op, shape)


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
    )
