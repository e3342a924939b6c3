"""Rows of what nodes keep, as a native walk has read it: which tensors they are.

What they say is what `Graphs` makes of what is looked at from Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from gradscope.machine_code.statistics import KINDS
from gradscope.record.from_pytorch.tensors import Tensors
from gradscope.trace.schema import NONE
from gradscope.watch.native.layout import INLINE
from gradscope.watch.native.saved_layout import saved_layout
from gradscope.watch.native.words import PACKED, PLAIN_VALUE, SAVED_COLUMNS

if TYPE_CHECKING:
    from gradscope.record.session import Session
    from gradscope.watch.native.graph import NativeGraph

Ints = NDArray[np.int64]


class Saved:
    """Knows tensors by their history, as the node's own result, or by their memory."""

    def __init__(self, session: Session, graph: NativeGraph, tensors: Tensors) -> None:
        self._session = session
        self._graph = graph
        self._tensors = tensors
        self._slots = np.zeros(0, np.int64)
        self._shapes = np.zeros((0, 1 + INLINE), np.int64)
        kinds = saved_layout().plain.kinds
        self._dtypes = np.zeros((max(kinds) + 1, 2), np.int64)  # text and bytes, by code
        for code, kind in kinds.items():
            self._dtypes[code] = tensors.dtype(getattr(torch, KINDS[kind]))
        self.operands: list[tuple[int, int, int]] = []
        """What nodes keep that no node made: the node, the number of the slot, the tensor."""
        self._device = tensors.device(torch.device("cpu"))

    def _learn(self) -> None:
        """What numbers stand for that have come since."""
        intern, graph = self._session.writer.intern, self._graph
        new = [intern(slot) for slot in graph.slots[len(self._slots) :]]
        self._slots = np.concatenate([self._slots, np.array(new, np.int64)])
        shapes = [shape for shape, _, _ in graph.layouts[len(self._shapes) :]]
        found = np.full((len(shapes), 1 + INLINE), NONE)
        for row, shape in zip(found, shapes, strict=True):
            if len(shape) <= INLINE:
                row[: 1 + len(shape)] = len(shape), *shape
        self._shapes = np.concatenate([self._shapes, found])

    def rows(self, seen: Ints) -> list[tuple[int, ...]]:
        """Rows of what nodes keep: node, slot, tensor, version, time, and whether it is packed."""
        self._learn()
        each = dict(zip(SAVED_COLUMNS, seen.T.copy(), strict=False))
        what, tensor = each["what"], each["tensor"]
        packed, plain = what == PACKED, what == PLAIN_VALUE
        tensor[packed] = NONE
        version = np.where(packed, 0, each["version"])
        shape = _up_to(each["dims"], seen[:, len(SAVED_COLUMNS) :][:, :INLINE])
        strides = _up_to(each["dims"], seen[:, len(SAVED_COLUMNS) + INLINE :])
        own = plain & (tensor < 0) & (each["own"] >= 0)
        own[own] = (self._shapes[each["layout"][own]] == shape[own]).all(1)
        tensor[own] = each["own"][own]
        memory = np.stack([each["walk"], each["data"], each["bytes"]], 1)
        storage = np.full(len(tensor), NONE)
        storage[plain] = self._storages(memory[plain])
        self._complete(np.flatnonzero(plain & (tensor >= 0)), tensor, strides, storage, version)
        constant = np.flatnonzero(plain & (tensor < 0))
        if len(constant):
            width = self._dtypes[each["dtype"][constant], 1]
            place = each["data"][constant] + each["offset"][constant] * width
            place[(shape[constant, 1:] == 0).any(1)] = 0
            named = [place, each["dtype"][constant], *shape[constant].T, *strides[constant].T]
            tensor[constant] = self._constants(
                np.stack(named, 1), each["walk"][constant], storage[constant], version[constant]
            )
        operands = each["operand"] != 0
        found = (each[name][operands].tolist() for name in ("node", "slot", "tensor"))
        self.operands += zip(*found, strict=True)
        t = np.maximum(each["t"] - self._session.start, 0)
        columns = (each["node"], self._slots[each["slot"]], tensor, version, t, packed.astype(int))
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def _storages(self, memory: Ints) -> Ints:
        """The numbers of memory (walk, address, size): the same in a walk for the same address."""
        order = np.lexsort(memory.T)
        rows = memory[order]
        new = np.ones(len(rows), bool)
        new[1:] = (rows[1:] != rows[:-1]).any(1) | (rows[1:, 1] == 0)
        numbers = self._tensors.storages_at(self._device, rows[new].tolist(), self._session.start)
        found = np.empty(len(rows), np.int64)
        found[order] = np.array(numbers, np.int64)[np.cumsum(new) - 1]
        return found

    def _complete(
        self, places: Ints, tensor: Ints, strides: Ints, storage: Ints, version: Ints
    ) -> None:
        """What nodes' outputs look like in memory."""
        places = places[np.unique(tensor[places], return_index=True)[1]]
        columns = (tensor[places], strides[places], storage[places], version[places])
        self._tensors.completed(
            [
                (number, tuple(steps[:dims]), where, writes)
                for number, (dims, *steps), where, writes in zip(
                    *(column.tolist() for column in columns), strict=True
                )
            ]
        )

    def _constants(self, named: Ints, walk: Ints, storage: Ints, version: Ints) -> Ints:
        """The numbers of tensors without history: the same in a walk for the same memory."""
        keys = np.concatenate([walk[:, None], named], axis=1)
        _, first, which = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        numbers = []
        columns = (keys[first], storage[first], version[first])
        for (at, place, code, *both), where, writes in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            dims = both[0]
            shape, strides = both[1 : 1 + dims], both[2 + INLINE : 2 + INLINE + dims]
            text, width = self._dtypes[code].tolist()
            key = (at, place, tuple(shape), tuple(strides), text)
            numbers.append(self._tensors.constant(key, width, self._device, where, writes))
        return np.array(numbers, np.int64)[which.reshape(-1)]


def _up_to(dims: Ints, numbers: Ints) -> Ints:
    """How many dims, and as many numbers; what stands behind them does not count."""
    own = np.arange(INLINE) < dims[:, None]
    return np.concatenate([dims[:, None], np.where(own, numbers, NONE)], axis=1)
