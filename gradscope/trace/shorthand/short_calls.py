"""Expands short rows of calls: calls, results, storages, nodes, edges, saved tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradscope.trace.ragged import Ragged
from gradscope.trace.schema.declare import NONE
from gradscope.trace.schema.tables import Edge, Node, Op, Saved, Storage, Tensor, Why
from gradscope.trace.shorthand.short_columns import Ints, ShortColumns, Tables, lookup

Put = Callable[[Any, dict[str, Any]], None]
"""Receives the rows of a table, column by column."""

ABSENT, RESULT = -9, -2


class ShortCalls:
    """All short calls of a trace, and what is needed to expand them."""

    def __init__(self, tables: Tables, sizes: tuple[Ints, Ints]) -> None:
        self.layouts = tables["short.layout"]
        self.operators = OperatorColumns(tables["short.operator"], tables["short.slot"])
        self.origins = tables["short.origin"]
        self.views = tables["short.view"]
        self.explicit = tables["short.explicit"]["number"]
        calls = tables["short.call"]
        self.number = calls["number"]
        self.begin, self.end = calls["begin"], calls["end"]
        self.op = calls.within("op", 0, self.operators.count)
        self.layout = calls.within("layout", 0, self.layouts.rows)
        contexts = tables["short.context"]
        self.where = _where(calls, contexts)
        self.sequence, self.topological = calls["sequence"], calls["topological"]
        self.site = calls["site"]
        self.inputs = (calls["first"], calls["second"])
        self.has_node = self.topological >= 0
        self.bytes = self.layouts["bytes"][self.layout]
        self._sizes = (
            np.concatenate([sizes[0], self.number]),
            np.concatenate([sizes[1], self.bytes]),
        )

    def cells(self) -> int:
        """Number of cells these calls stand for. See Note [Bounded expansion]."""
        if not len(self.number):
            return 0
        edges, slots = (
            np.count_nonzero(each != ABSENT, axis=1)[self.op].sum()
            for each in (self.operators.sources, self.operators.slot_source)
        )
        dimensions = self.layouts.ragged("shape").lengths[self.layout].astype(float).sum()
        return int(len(self.number) * 60 + dimensions + edges * 4 + slots * 10)

    def write(self, put: Put) -> None:
        """Everything but saved tensors."""
        if not len(self.number):
            return
        self._tensors(put)
        self._ops(put)
        self._nodes(put)

    def _tensors(self, put: Put) -> None:
        storage = lookup(self.views["number"], self.views["storage"], self.number, NONE)
        fresh = storage == NONE
        zeros = np.zeros(len(storage), np.int64)
        put(Storage, {
            "id": self.number[fresh], "bytes": self.bytes[fresh], "device": zeros[fresh],
            "born": self.end[fresh], "freed": zeros[fresh] + NONE,
        })  # fmt: skip
        shape = self.layouts.ragged("shape")
        lengths = shape.lengths[self.layout]
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        starts = shape.offsets[:-1][self.layout]
        cells = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - starts, lengths)
        put(Tensor, {
            "id": self.number, "shape": Ragged(offsets, shape.values[cells]),
            "strides": Ragged(np.zeros(len(lengths) + 1, np.int64), np.zeros(0, np.int64)),
            "dtype": self.layouts["dtype"][self.layout], "device": zeros,
            "storage": np.where(fresh, self.number, storage), "bytes": self.bytes,
            "version": zeros, "leaf": ~self.has_node, "requires_grad": self.has_node,
            "name": zeros, "op": self.number,
        })  # fmt: skip

    def _ops(self, put: Put) -> None:
        pair = np.stack(self.inputs, axis=1)
        there = pair >= 0
        counts = there.sum(axis=1)
        reason = np.where(self.sequence == -2, Why.NO_GRAD, self.operators.reason[self.op])
        reason[self.sequence == -3] = Why.INFERENCE
        put(Op, {
            "id": self.number, "name": self.operators.name[self.op],
            "path": np.zeros(len(self.number), np.int64), "begin": self.begin, "end": self.end,
            "inputs": Ragged.of_lengths(counts, pair[there] >> 1),
            "outputs": _singles(self.number),
            "node": np.where(self.has_node, self.number, NONE),
            "why": np.where(self.has_node, Why.MADE, reason), "stack": self.site, **self.where,
        })  # fmt: skip

    def _nodes(self, put: Put) -> None:
        made = self.has_node
        number = self.number[made]
        where = {name: self.where[name][made] for name in ("thread", "module", "task", "step")}
        put(Node, {
            "id": number, "name": self.operators.node_name[self.op[made]],
            "sequence_nr": self.sequence[made], "topological_nr": self.topological[made],
            "op": number, "inputs": _singles(number), "stack": self.site[made], "t": self.end[made],
            **where,
        })  # fmt: skip
        plain = made & ~np.isin(self.number, self.explicit)
        self._edges(put, np.flatnonzero(plain))

    def _edges(self, put: Put, rows: Ints) -> None:
        """The edges: a gradient goes to the node that created the input it is for."""
        number, op = self.number[rows], self.op[rows]
        targets, outputs = zip(*(self._target(i[rows], number) for i in self.inputs), strict=True)
        sources = self.operators.sources
        self.valid = np.zeros((len(rows), sources.shape[1]), bool)
        self.plain = rows
        edges = []
        for index in range(sources.shape[1]):
            source = sources[op, index]
            has = source != ABSENT
            target = np.where(source == 0, targets[0], np.where(source == 1, targets[1], NONE))
            output = np.where(source == 0, outputs[0], np.where(source == 1, outputs[1], 0))
            self.valid[:, index] = has & (target != NONE)
            edges.append((number[has], np.full(int(has.sum()), index), target[has], output[has]))
        if edges:
            node, place, target, output = (np.concatenate(c) for c in zip(*edges, strict=True))
            order = np.lexsort((place, node))
            put(Edge, {
                "node": node[order], "index": place[order], "next": target[order],
                "input_nr": np.where(target == NONE, 0, output)[order],
            })  # fmt: skip

    def _target(self, tensor: Ints, at: Ints) -> tuple[Ints, Ints]:
        """The node and output that had created a tensor when the call `at` received it."""
        own = (tensor & 1 == 1) & (tensor >= 0)
        id = np.where(tensor >= 0, tensor >> 1, NONE)
        origins = self.origins
        if not origins.rows:
            return np.where(own, id, NONE), np.zeros(len(id), np.int64)
        order = np.lexsort((origins["since"], origins["tensor"]))
        known, since = origins["tensor"][order], origins["since"][order]
        # Ids and calls share one counter, so both fit in half a word.
        place = np.searchsorted(known << 32 | since, id << 32 | at, side="right") - 1
        place = np.maximum(place, 0)
        right = (known[place] == id) & (since[place] <= at)
        node = np.where(right, origins["node"][order][place], NONE)
        output = np.where(right, origins["output"][order][place], 0)
        return np.where(own, id, node), np.where(own, 0, output)

    def saved(self, noted: ShortColumns) -> dict[str, Any]:
        """All saved tensors: those that follow from calls, and those recorded separately."""
        parts = [
            tuple(noted[name] for name in ("node", "slot", "tensor", "version", "t", "hooked")),
            *self._kept(),
        ]
        node, slot, tensor, version, t, hooked = (
            np.concatenate(c) for c in zip(*parts, strict=True)
        )
        order = np.argsort(t, kind="stable")
        many = len(node)
        return {
            "id": np.arange(many), "node": node[order], "slot": slot[order],
            "tensor": tensor[order], "version": version[order],
            "bytes": lookup(*self._sizes, tensor[order], 0), "hooked": hooked[order] != 0,
            "t": t[order], "released": np.full(many, NONE), "task": np.full(many, NONE),
        }  # fmt: skip

    def _kept(self) -> list[tuple[Ints, ...]]:
        if not len(self.number) or not len(self.plain):
            return []
        rows = self.plain
        number, op = self.number[rows], self.op[rows]
        first, second = (np.where(i[rows] >= 0, i[rows] >> 1, NONE) for i in self.inputs)
        parts: list[tuple[Ints, ...]] = []
        table = self.operators
        for index in range(table.slot_source.shape[1]):
            source, wanted = table.slot_source[op, index], table.slot_wanted[op, index]
            tensor = np.select(
                [source == RESULT, source == 0, source == 1], [number, first, second], NONE
            )
            asked = np.zeros(len(rows), bool)
            for edge in range(self.valid.shape[1]):
                asked |= (wanted >> edge & 1 == 1) & self.valid[:, edge]
            kept = (tensor != NONE) & ((wanted == 0) | asked)
            zeros = np.zeros(int(kept.sum()), np.int64)
            name = table.slot_name[op[kept], index]
            parts.append((number[kept], name, tensor[kept], zeros, self.end[rows][kept], zeros))
        return parts


def _where(calls: ShortColumns, contexts: ShortColumns) -> dict[str, Ints]:
    """Where the calls were made. See Note [Latest steps]: contexts of earlier steps may be gone."""
    names, known = ("thread", "module", "task", "step", "phase"), contexts["id"]
    if np.array_equal(known, np.arange(len(known))):
        at = calls.within("context", 0, contexts.rows)
        return {name: contexts[name][at] for name in names}
    return {
        name: lookup(known, contexts[name], calls["context"], 0 if name == "phase" else NONE)
        for name in names
    }


class OperatorColumns:
    """What an operation implies for each of its calls, as arrays by its number."""

    def __init__(self, table: ShortColumns, slots: ShortColumns) -> None:
        number = table.within("number", 0, 1 << 16)
        self.count = 1 + int(number.max()) if len(number) else 0
        self.name, self.node_name, self.reason = (
            self._by_number(number, table[name]) for name in ("name", "node_name", "reason")
        )
        sources = table.ragged("sources")
        width = int(sources.lengths.max()) if len(number) else 0
        self.sources = np.full((self.count, min(width, 64)), ABSENT)
        for row, at in enumerate(number.tolist()):
            given = sources[row][:64]
            self.sources[at, : len(given)] = given
        self._slots(slots)

    def _by_number(self, number: Ints, values: Ints) -> Ints:
        made = np.zeros(self.count, np.int64)
        made[number] = values
        return made

    def _slots(self, slots: ShortColumns) -> None:
        owner = slots.within("operator", 0, self.count)
        position = np.zeros(len(owner), np.int64)
        seen: dict[int, int] = {}
        for row, at in enumerate(owner.tolist()):
            position[row] = seen.get(at, 0)
            seen[at] = seen.get(at, 0) + 1
        width = max(seen.values(), default=0)
        if self.count * width > 1 << 22:
            width = 0
        self.slot_source = np.full((self.count, width), ABSENT)
        self.slot_wanted = np.zeros((self.count, width), np.int64)
        self.slot_name = np.zeros((self.count, width), np.int64)
        if width:
            self.slot_source[owner, position] = slots["source"]
            self.slot_wanted[owner, position] = slots["wanted"]
            self.slot_name[owner, position] = slots["name"]


def _singles(values: Ints) -> Ragged:
    return Ragged(np.arange(len(values) + 1), values)


__all__ = ["Saved", "ShortCalls"]
