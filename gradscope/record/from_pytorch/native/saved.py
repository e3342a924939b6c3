"""Rows of what nodes keep, as a native walk has read it: which tensors they are.

What they say is what `Graphs` makes of what is looked at from Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from gradscope.machine_code.statistics import KINDS
from gradscope.record.from_pytorch.tensors import Completed, Tensors
from gradscope.trace import schema
from gradscope.trace.ragged import Ragged
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
        self.operands: list[Ints] = []
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

    def rows(self, seen: Ints) -> dict[str, Ints]:
        """What nodes keep: node, slot, tensor, version, time, and whether it is packed."""
        self._learn()
        named = seen[:, : len(SAVED_COLUMNS)].T.copy()
        each = dict(zip(SAVED_COLUMNS, named, strict=True))
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
            keys = np.concatenate([
                np.stack([each["walk"][constant], place, each["dtype"][constant]], 1),
                shape[constant], strides[constant],
            ], 1)  # fmt: skip
            tensor[constant] = self._constants(keys, storage[constant], version[constant])
        operands = each["operand"] != 0
        self.operands.append(
            np.stack([each[name][operands] for name in ("node", "slot", "tensor")])
        )
        t = np.maximum(each["t"] - self._session.start, 0)
        return {
            "node": each["node"], "slot": self._slots[each["slot"]], "tensor": tensor,
            "version": version, "t": t, "hooked": packed.astype(np.int64),
            "data": np.where(packed, 0, each["data"]), "counter": each["counter"],
            "walk": each["walk"], "storage": storage, "whole": _whole(shape, strides),
            "own": (each["own"] >= 0).astype(np.int64), "address": each["operand"],
        }  # fmt: skip

    def _storages(self, memory: Ints) -> Ints:
        """The numbers of memory (walk, address, size): the same in a walk for the same address."""
        order = np.lexsort(memory.T)
        rows = memory[order]
        new = np.ones(len(rows), bool)
        new[1:] = (rows[1:] != rows[:-1]).any(1) | (rows[1:, 1] == 0)
        numbers = self._tensors.storages_at(self._device, rows[new], self._session.start)
        found = np.empty(len(rows), np.int64)
        found[order] = numbers[np.cumsum(new) - 1]
        return found

    def _complete(
        self, places: Ints, tensor: Ints, strides: Ints, storage: Ints, version: Ints
    ) -> None:
        """What nodes' outputs look like in memory."""
        places = places[np.unique(tensor[places], return_index=True)[1]]
        if len(places):
            columns = storage[places], version[places]
            steps = _ragged(strides[places])
            self._tensors.completed(Completed(tensor[places], steps, *columns))

    def _constants(self, keys: Ints, storage: Ints, version: Ints) -> Ints:
        """The numbers of tensors without history: the same in a walk for the same memory.

        Keys: walk, address, dtype; how many dims, and sizes; how many, and strides.
        """
        first, which = _first_of_each(keys)
        keys = keys[first]
        number = np.full(len(keys), NONE)
        if self._tensors.constants:  # some were looked at from Python
            number[:] = [self._tensors.constants.get(key, NONE) for key in self._names_of(keys)]
        new = np.flatnonzero(number == NONE)
        number[new] = self._tensors.numbers(len(new))
        shape = keys[new, 3 : 4 + INLINE]
        text, width = self._dtypes[keys[new, 2]].T
        many = np.where(shape[:, 1:] == NONE, 1, shape[:, 1:]).prod(1)
        nothing = np.zeros(len(new), np.int64)
        self._tensors.found(schema.Tensor, {
            "id": number[new], "shape": _ragged(shape),
            "strides": _ragged(keys[new, 4 + INLINE :]), "dtype": text,
            "device": nothing + self._device, "storage": storage[first][new],
            "bytes": many * width, "version": version[first][new], "leaf": nothing == 0,
            "requires_grad": nothing != 0, "op": nothing + NONE,
        })  # fmt: skip
        return number[which]

    def _names_of(self, keys: Ints) -> list[Any]:
        """The same as `Tensors.key` makes of tensors at hand."""
        found = []
        for at, place, code, *both in keys.tolist():
            dims = both[0]
            shape, strides = both[1 : 1 + dims], both[2 + INLINE : 2 + INLINE + dims]
            found.append((at, place, tuple(shape), tuple(strides), int(self._dtypes[code, 0])))
        return found


def _first_of_each(rows: Ints) -> tuple[Ints, Ints]:
    """Where each row that differs from all before it stands; and which of these each row is."""
    with np.errstate(over="ignore"):
        mixed = rows @ _MIXING[: rows.shape[1]]
    _, first, which = np.unique(mixed, return_index=True, return_inverse=True)
    if not (rows[first][which] == rows).all():  # two rows that differ are mixed to one number
        _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, which.reshape(-1)


_MIXING = np.random.default_rng(0).integers(-(1 << 62), 1 << 62, 64) * 2 + 1


def _ragged(cells: Ints) -> Ragged:
    """Columns: how many numbers, and as many numbers as there is room for."""
    own = np.arange(cells.shape[1] - 1) < cells[:, :1]
    return Ragged.of_lengths(cells[:, 0], cells[:, 1:][own])


def _whole(shape: Ints, strides: Ints) -> Ints:
    """How many elements there are, where they lie in order, one after the other; else 0."""
    sizes = np.where(shape[:, 1:] == NONE, 1, shape[:, 1:])
    behind = np.cumprod(sizes[:, ::-1], axis=1)[:, ::-1]
    steps = np.concatenate([behind[:, 1:], np.ones((len(sizes), 1), np.int64)], axis=1)
    in_order = ((sizes == 1) | (strides[:, 1:] == steps)).all(1)
    return np.where(in_order, behind[:, 0], 0)


def _up_to(dims: Ints, numbers: Ints) -> Ints:
    """How many dims, and as many numbers; what stands behind them does not count."""
    own = np.arange(INLINE) < dims[:, None]
    return np.concatenate([dims[:, None], np.where(own, numbers, NONE)], axis=1)
