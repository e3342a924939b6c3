"""The rows that outlast their step when a ring lets it go: later rows refer to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gradscope.trace.file.file_lines import block_lines, read_block, unseal
from gradscope.trace.file.index import IndexEntry, entry
from gradscope.trace.ragged import Ragged, concatenate
from gradscope.trace.schema.declare import NONE
from gradscope.trace.table import Block

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gradscope.trace.ragged import Array

LASTING: Final = frozenset({
    "string", "meta", "frame", "stack", "source", "module", "alias", "thread", "device", "step",
    "step_summary", "parameter_summary",
    "process_group", "replicated", "gathered", "compilation", "graph_break", "region",
    "region_kernel", "region_op", "captured", "plan", "buffer",
    "short.operator", "short.slot", "short.layout",
})  # fmt: skip
"""Tables that are kept whole: what a program consists of, not what happens in a step."""

BY_TENSOR: Final = {"tensor": "id", "shard": "tensor", "short.origin": "tensor"}
"""Tables with rows about a tensor, and the column that names it."""

REPLACED: Final = {"node": "inputs", "short.origin": "tensor"}
"""Tables with a new row for a tensor in each step. Of nodes, only AccumulateGrads are kept."""

CHOSEN: Final = frozenset({*BY_TENSOR, "storage", "node", "short.context"})
"""Tables of which only some rows are kept: those of tensors that still exist, or of no step."""

Line = tuple[bytes, IndexEntry]


def lasting(lines: Iterable[Line], tensors: Array, window: int) -> Iterator[Line]:
    """The lines to keep of steps that are let go, of which the program still has these tensors."""
    blocks = [
        read_block(fields, len(line))
        for line, place in lines
        if (place.table in LASTING or place.table in CHOSEN)
        and (fields := unseal(line)) is not None
    ]
    storages = _storages([block for block in blocks if block.table == "tensor"], tensors)
    kept = [
        block
        if block.table in LASTING
        else block.take(np.flatnonzero(_kept(block, tensors, storages)))
        for block in blocks
    ]
    for block, line in block_lines(map(_latest, _joined([each for each in kept if each.rows]))):
        yield line, entry(block, 0, len(line), window)


def _latest(block: Block) -> Block:
    """A block with only the latest row of each tensor, where later rows replace earlier ones."""
    if block.table not in REPLACED or block.amend:
        return block
    tensors = block.data[REPLACED[block.table]]
    ids = tensors.values if isinstance(tensors, Ragged) else tensors
    latest = np.zeros(block.rows, np.bool_)
    latest[block.rows - 1 - np.unique(ids[::-1], return_index=True)[1]] = True
    part = block.take(np.flatnonzero(latest))
    gone = {name: np.full(part.rows, NONE) for name in ("step", "task") if name in part.data}
    return Block(part.table, part.rows, {**part.data, **gone})


def _joined(blocks: Sequence[Block]) -> Iterator[Block]:
    """The rows of these blocks in fewer blocks: one for those with the same columns."""
    alike: dict[tuple[str, bool, tuple[str, ...]], list[Block]] = {}
    for block in blocks:
        alike.setdefault((block.table, block.amend, tuple(block.data)), []).append(block)
    for (table, amend, names), parts in alike.items():
        data = {name: concatenate([part.data[name] for part in parts]) for name in names}
        yield Block(table, sum(part.rows for part in parts), data, amend)


def _storages(blocks: list[Block], tensors: Array) -> Array:
    """The storages of these tensors."""
    found = [np.zeros(0, np.int64)]
    for block in blocks:
        storage = block.data.get("storage")
        if isinstance(storage, np.ndarray):
            found.append(storage[np.isin(_column(block, "id"), tensors)])
    return np.concatenate(found)


def _kept(block: Block, tensors: Array, storages: Array) -> Array:
    if block.table == "storage":
        return np.isin(_column(block, "id"), storages)
    if block.table == "short.context":
        return np.asarray(_column(block, "step") == NONE)
    if block.table == "node":
        return _accumulates(block, tensors)
    return np.isin(_column(block, BY_TENSOR[block.table]), tensors)


def _accumulates(block: Block, tensors: Array) -> Array:
    """Whether each row of a block of nodes is the AccumulateGrad of one of these tensors."""
    inputs = block.data.get("inputs")
    if not isinstance(inputs, Ragged):
        return np.zeros(block.rows, np.bool_)
    single = inputs.lengths == 1
    kept = single & (_column(block, "op") == NONE)
    kept[single] &= np.isin(inputs.values[inputs.offsets[:-1][single]], tensors)
    return np.asarray(kept)


def _column(block: Block, name: str) -> Array:
    data = block.data.get(name)
    return data if isinstance(data, np.ndarray) else np.full(block.rows, NONE)
