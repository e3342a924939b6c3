"""Divides the steps of a trace into blocks: those of a block are in the same files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gradscope.analysis.lookups import Ids
from gradscope.fleet.export.cells import distinct_of
from gradscope.fleet.export.rows.rank_trace import RankTrace, StepOrder
from gradscope.fleet.export.rows.value_rows import step_of_values
from gradscope.trace.schema import Node, Op

MOST_ROWS = 3_000_000
"""Rows of a table in a file: of the widest table some 200 MB, and of most a tenth of that."""


@dataclass(frozen=True, slots=True)
class StepBlock:
    """The steps from one number to another; None: rows outside of steps."""

    first: int | None
    last: int | None


OUTSIDE_BLOCK = StepBlock(None, None)


def blocks_of(of: RankTrace, before: Sequence[StepBlock]) -> list[StepBlock]:
    """Blocks of all steps: those that a fleet has already, and further ones for later steps."""
    blocks = [block for block in before if block.first is not None]
    done = blocks[-1].last if blocks else None
    numbers = sorted({step.number for step in of.steps})
    left = [number for number in numbers if done is None or number > done]
    if not left:
        return blocks
    largest = max((len(table) for table in of.trace.tables.values()), default=0)
    is_small = max(largest, of.trace.event_count) <= MOST_ROWS
    rows = [0] * len(left) if is_small else _most_rows(of, left)
    first, held = left[0] if done is None else done + 1, 0
    for at, (number, many) in enumerate(zip(left, rows, strict=True)):
        if held and held + many > MOST_ROWS:
            blocks.append(StepBlock(first, left[at - 1]))
            first, held = left[at - 1] + 1, 0
        held += many
        if at == len(left) - 1:
            blocks.append(StepBlock(first, number))
    return blocks


def _most_rows(of: RankTrace, numbers: Sequence[int]) -> list[int]:
    """For each of these steps, the rows of the table that has most of them."""
    trace = of.trace
    events = of.of_tasks(of.event_tasks)
    columns = [step_of_values(of), events, *(trace.table(kind)["step"] for kind in (Op, Node))]
    wanted, most = np.array(numbers, np.int64), np.zeros(len(numbers), np.int64)
    for steps in columns:
        number, known, _ = of.numbers(steps)
        found, inverse = distinct_of(number[known])
        counts = np.bincount(inverse, minlength=len(found))
        if len(found):
            at = np.minimum(np.searchsorted(found, wanted), len(found) - 1)
            most = np.maximum(most, np.where(found[at] == wanted, counts[at], 0))
    counted: list[int] = most.tolist()
    return counted


def cut(order: StepOrder, blocks: Sequence[StepBlock]) -> Iterator[tuple[StepBlock, int, int]]:
    """The first row of each block in a table, and the one after its last."""
    inside = int(np.count_nonzero(order.known))
    steps: Ids = order.steps[:inside]
    starts = np.searchsorted(steps, [block.first or 0 for block in blocks], side="left").tolist()
    yield from zip(blocks, starts, [*starts[1:], inside], strict=False)
    yield OUTSIDE_BLOCK, inside, len(order.known)
