"""From the notes of ordinary calls to the rows of calls, tensors, storages, nodes, edges, saved."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradscope.record.optable import ABSENT, RESULT
from gradscope.runtime import dtypes
from gradscope.trace.ragged import Ragged
from gradscope.trace.schema import NONE, Edge, Node, Op, Saved, Storage, Tensor, Why

if TYPE_CHECKING:
    from gradscope.record.catalog import Catalog
    from gradscope.record.contexts import Contexts
    from gradscope.record.optable import OpTable
    from gradscope.record.log import Log
    from gradscope.trace.writer import Writer

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Calls:
    """Ordinary calls, column by column, in the order of their numbers."""

    number: Ints
    begin: Ints
    end: Ints
    context: Ints
    op: Ints
    sequence: Ints
    topological: Ints
    inputs: tuple[Ints, Ints]  # signed numbers; base where there is none
    site: Ints
    layout: Ints

    @property
    def differentiable(self) -> NDArray[np.bool_]:
        return self.topological >= 0


class Layouts:
    """Shapes and dtypes of results, each kept once."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._known: dict[Any, int] = {}
        self.shapes: list[tuple[int, ...]] = []
        self.bytes: list[int] = []
        self.dtype: list[int] = []

    def of(self, metas: list[Any]) -> Ints:
        known = self._known
        found = [known.get(meta, NONE) for meta in metas]
        if NONE in found:
            found = [self._add(meta) if at == NONE else at for meta, at in zip(metas, found, strict=True)]
        return np.fromiter(found, np.int64, len(found))

    def _add(self, meta: Any) -> int:
        if meta in self._known:
            return self._known[meta]
        shape, dtype = meta[0]
        self._known[meta] = len(self.shapes)
        self.shapes.append(tuple(shape))
        self.bytes.append(prod(shape) * dtype.itemsize)
        self.dtype.append(self._writer.intern(dtypes.from_numpy(dtype).name))
        return len(self.shapes) - 1

    def ragged(self, layout: Ints) -> Ragged:
        lengths = np.array([len(shape) for shape in self.shapes], np.int64)[layout]
        flat = np.array([size for shape in self.shapes for size in shape], np.int64)
        starts = np.cumsum([0, *(len(shape) for shape in self.shapes)])[layout]
        offsets = np.zeros(len(layout) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        where = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - starts, lengths)
        return Ragged(offsets, flat[where] if len(flat) else flat)


class Origins:
    """Which node's output a tensor was from a given number on, for those where it is not obvious."""

    def __init__(self) -> None:
        self._keys = np.zeros(0, np.int64)
        self._tensor = np.zeros(0, np.int64)
        self._node = np.zeros(0, np.int64)
        self._output = np.zeros(0, np.int64)

    def add(self, rows: list[tuple[int, int, int, int]]) -> None:
        if not rows:
            return
        tensor, since, node, output = (np.array(c, np.int64) for c in zip(*rows, strict=True))
        keys = np.concatenate([self._keys, tensor << 32 | since])
        order = np.argsort(keys, kind="stable")
        self._keys = keys[order]
        self._tensor = np.concatenate([self._tensor, tensor])[order]
        self._node = np.concatenate([self._node, node])[order]
        self._output = np.concatenate([self._output, output])[order]

    def of(self, tensor: Ints, at: Ints, none: int) -> tuple[Ints, Ints]:
        """The node and output for each tensor as it was at a number; `none` where there is no node."""
        if not len(self._keys):
            return np.full(len(tensor), none), np.zeros(len(tensor), np.int64)
        place = np.searchsorted(self._keys, tensor << 32 | at, side="right") - 1
        place = np.maximum(place, 0)
        right = self._tensor[place] == tensor
        return np.where(right, self._node[place], none), np.where(right, self._output[place], 0)


class Sizes:
    """How many bytes each tensor has, by number."""

    def __init__(self, base: int) -> None:
        self._base = base
        self._bytes = np.zeros(1 << 12, np.int64)

    def put(self, number: Ints, size: Ints) -> None:
        if not len(number):
            return
        last = int(number.max()) - self._base
        if last >= len(self._bytes):
            self._bytes = np.concatenate([self._bytes, np.zeros(max(last, len(self._bytes)), np.int64)])
        self._bytes[number - self._base] = size

    def of(self, number: Ints) -> Ints:
        return self._bytes[number - self._base]


class Rows:
    """Writes calls and all that follows from them."""

    def __init__(self, writer: Writer, contexts: Contexts, base: int, start: int) -> None:
        self._writer = writer
        self._contexts = contexts
        self._base = base
        self._start = start
        self.layouts = Layouts(writer)
        self.origins = Origins()
        self._saved_ids = 0
        self.sizes = Sizes(base)
        self._held: list[tuple[Ints, Ints]] = []

    def ids(self, numbers: Any) -> Ints:
        """Numbers as the trace has them: from 0, and NONE for `base`."""
        return np.asarray(numbers, np.int64) - (self._base + 1)

    def calls(self, one: Log, two: Log) -> Calls:
        first, (metas,) = one.take()
        second, (more,) = two.take()
        absent = np.full((1, first.shape[1]), self._base)
        parts = (np.vstack([first[:8], absent, first[8:]]), second)
        table = np.concatenate(parts, axis=1)
        layout = self.layouts.of(metas + more)
        order = np.argsort(table[0], kind="stable")
        table, layout = table[:, order], layout[order]
        return Calls(*table[:7], inputs=(table[7], table[8]), site=table[9], layout=layout)

    def write(self, calls: Calls, catalog: Catalog, ops: OpTable) -> None:
        """All rows of a window of calls."""
        if not len(calls.number):
            return
        contexts = np.array(self._contexts.rows, np.int64)[calls.context]
        self._write_tensors(calls, catalog)
        self._write_ops(calls, contexts, ops)
        self._write_nodes(calls, contexts, ops)
        explicit = np.isin(calls.number, catalog.explicit)
        plain = calls.differentiable & ~explicit
        chosen = Calls(
            *(getattr(calls, name)[plain] for name in (
                "number", "begin", "end", "context", "op", "sequence", "topological")),
            inputs=(calls.inputs[0][plain], calls.inputs[1][plain]), site=calls.site[plain],
            layout=calls.layout[plain],
        )  # fmt: skip
        self._write_edges(chosen, ops)

    def _write_tensors(self, calls: Calls, catalog: Catalog) -> None:
        layouts = self.layouts
        size = np.array(layouts.bytes, np.int64)[calls.layout]
        self.sizes.put(calls.number, size)
        storage = calls.number.copy()
        if catalog.views:
            looks = np.isin(calls.number, list(catalog.views))
            storage[looks] = [catalog.views[int(n)] for n in calls.number[looks]]
        fresh = storage == calls.number
        self._writer.block(Storage, {
            "id": self.ids(storage[fresh]), "bytes": size[fresh],
            "device": np.zeros(int(fresh.sum()), np.int64),
            "born": calls.end[fresh] - self._start,
        })  # fmt: skip
        zeros = np.zeros(len(storage), np.int64)
        self._writer.block(Tensor, {
            "id": self.ids(calls.number), "shape": layouts.ragged(calls.layout),
            "dtype": np.array(layouts.dtype, np.int64)[calls.layout], "device": zeros,
            "storage": self.ids(storage), "bytes": size, "version": zeros,
            "leaf": ~calls.differentiable, "requires_grad": calls.differentiable,
            "op": self.ids(calls.number),
        })  # fmt: skip

    def _write_ops(self, calls: Calls, contexts: Any, ops: OpTable) -> None:
        pair = np.stack([np.abs(calls.inputs[0]), np.abs(calls.inputs[1])], axis=1)
        there = pair != self._base
        made = calls.differentiable
        self._writer.block(Op, {
            "id": self.ids(calls.number), "name": ops.name[calls.op],
            "begin": calls.begin - self._start, "end": calls.end - self._start,
            "inputs": Ragged.of_lengths(there.sum(axis=1), self.ids(pair[there])),
            "outputs": _singles(self.ids(calls.number)),
            "node": np.where(made, self.ids(calls.number), NONE),
            "why": np.where(made, Why.MADE, ops.why(calls.op, calls.sequence)),
            "module": contexts[:, 1], "stack": calls.site, "thread": contexts[:, 0],
            "task": contexts[:, 2], "step": contexts[:, 3], "phase": contexts[:, 4],
        })  # fmt: skip

    def _write_nodes(self, calls: Calls, contexts: Any, ops: OpTable) -> None:
        made = calls.differentiable
        number = self.ids(calls.number[made])
        self._writer.block(Node, {
            "id": number, "name": ops.node_name[calls.op[made]],
            "sequence_nr": calls.sequence[made], "topological_nr": calls.topological[made],
            "op": number, "inputs": _singles(number), "task": contexts[made, 2],
            "module": contexts[made, 1], "stack": calls.site[made], "thread": contexts[made, 0],
            "step": contexts[made, 3], "t": calls.end[made] - self._start,
        })  # fmt: skip

    def _write_edges(self, calls: Calls, ops: OpTable) -> None:
        """An input's gradient goes to the node that made it; a saved input is kept if that needs it."""
        targets, outputs = [], []
        for signed in calls.inputs:
            node, output = self.origins.of(np.abs(signed), calls.number, self._base)
            own = signed > 0
            there = np.abs(signed) != self._base
            targets.append(np.where(there, np.where(own, signed, node), self._base))
            outputs.append(np.where(own, 0, output))
        edges = []
        valid = np.zeros((len(calls.number), ops.edges), bool)
        for index in range(ops.edges):
            source = ops.source[calls.op, index]  # which input this edge is of: 0, 1; or none
            has = source != ABSENT
            target = np.where(source == 0, targets[0], np.where(source == 1, targets[1], self._base))
            output = np.where(source == 0, outputs[0], np.where(source == 1, outputs[1], 0))
            valid[:, index] = has & (target != self._base)
            edges.append((calls.number[has], np.full(int(has.sum()), index), target[has], output[has]))
        number, index, target, output = (np.concatenate(c) for c in zip(*edges, strict=True))
        order = np.lexsort((index, number))
        self._writer.block(Edge, {
            "node": self.ids(number[order]), "index": index[order],
            "next": self.ids(target[order]), "input_nr": output[order],
        })  # fmt: skip
        self._write_saved(calls, ops, valid)

    def _write_saved(self, calls: Calls, ops: OpTable, valid: Any) -> None:
        parts = []
        for index in range(ops.slots):
            source = ops.slot_source[calls.op, index]
            wanted = ops.slot_wanted[calls.op, index]  # a bit per edge; 0: always
            kept = (source != ABSENT) & ((wanted == 0) | _any_bit(wanted, valid))
            tensor = np.where(
                source == RESULT, calls.number,
                np.where(source == 0, np.abs(calls.inputs[0]), np.abs(calls.inputs[1])),
            )  # fmt: skip
            kept &= tensor != self._base
            parts.append((
                calls.number[kept], ops.slot_name[calls.op[kept], index], tensor[kept],
                np.zeros(int(kept.sum()), np.int64), calls.end[kept] - self._start,
            ))  # fmt: skip
        if parts:
            columns = [np.concatenate(c) for c in zip(*parts, strict=True)]
            order = np.argsort(columns[0], kind="stable")
            self.keep(*(column[order] for column in columns))

    def keep(
        self, node: Ints, slot: Ints, tensor: Ints, version: Ints, t: Ints, hooked: Any = None
    ) -> None:
        """Rows of saved tensors, remembered until their node lets go of them."""
        ids = np.arange(self._saved_ids, self._saved_ids + len(node))
        self._saved_ids += len(node)
        self._writer.block(Saved, {
            "id": ids, "node": self.ids(node), "slot": slot, "tensor": self.ids(tensor),
            "version": version, "bytes": self.sizes.of(tensor),
            "hooked": np.zeros(len(node), bool) if hooked is None else hooked, "t": t,
            "released": np.full(len(node), NONE),
        })  # fmt: skip
        self._held.append((node, ids))

    def release(self, node: Ints, t: Ints, task: Ints) -> None:
        """These nodes let go of what they kept."""
        if not len(node) or not self._held:
            return
        held = np.concatenate([part[0] for part in self._held])
        ids = np.concatenate([part[1] for part in self._held])
        order = np.argsort(node, kind="stable")
        place = np.minimum(np.searchsorted(node[order], held), len(node) - 1)
        gone = node[order][place] == held
        which = order[place[gone]]
        if gone.any():
            columns = {"id": ids[gone], "released": t[which], "task": self.ids(task[which])}
            self._writer.block(Saved, columns, amend=True)
        self._held = [(held[~gone], ids[~gone])]


def _singles(values: Ints) -> Ragged:
    return Ragged(np.arange(len(values) + 1), values)


def _any_bit(wanted: Ints, valid: Any) -> Any:
    found = np.zeros(len(wanted), bool)
    for index in range(valid.shape[1]):
        found |= ((wanted >> index) & 1 == 1) & valid[:, index]
    return found
