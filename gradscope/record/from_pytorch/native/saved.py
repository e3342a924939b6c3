"""Rows of saved values read by a native traversal, with the identities of their tensors.

The contents are the same as those `PyTorchGraphs` writes for values read from Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from gradscope.machine_code.statistics import KINDS
from gradscope.record.from_pytorch.tensors import Completed, PyTorchTensors
from gradscope.trace.ragged import Ragged, concatenate
from gradscope.trace.schema import NONE
from gradscope.watch.native.layout import INLINE
from gradscope.watch.native.saved_layout import saved_layout
from gradscope.watch.native.walk_memory import (
    FORM_ROW,
    OF_UNMET,
    PACKED,
    PLAIN_VALUE,
    SAVED_COLUMNS,
)

if TYPE_CHECKING:
    from gradscope.record.session import Session
    from gradscope.watch.native.native_walker import NativeWalker

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class NativeSaved:
    """Identifies tensors by their node, as the node's own result, or by their memory."""

    def __init__(self, session: Session, graph: NativeWalker, tensors: PyTorchTensors) -> None:
        self._session = session
        self._graph = graph
        self._tensors = tensors
        self._slots = np.zeros(0, np.int64)
        self._shapes: dict[tuple[int, ...], int] = {}  # a number for each
        self._shape_of_layout = np.zeros(0, np.int64)
        self._forms = _Forms.of(np.zeros((0, FORM_ROW // 8), np.int64), {}, {})
        self._dtypes = {
            code: tensors.kinds.dtype(getattr(torch, KINDS[kind]))
            for code, kind in saved_layout().plain.kinds.items()
        }  # text and bytes
        self.operands: list[Ints] = []
        """Saved values that no node created: node, number of the slot, tensor."""
        self._device = tensors.kinds.device(torch.device("cpu"))

    def _learn(self) -> None:
        """Read the meaning of new numbers."""
        intern, graph = self._session.writer.intern, self._graph
        new = [intern(slot) for slot in graph.slots[len(self._slots) :]]
        self._slots = np.concatenate([self._slots, np.array(new, np.int64)])
        numbers = [
            self._shapes.setdefault(tuple(shape), len(self._shapes))
            for shape, _, _ in graph.layouts[len(self._shape_of_layout) :]
        ]
        self._shape_of_layout = np.concatenate([self._shape_of_layout, np.array(numbers, np.int64)])
        more = graph.forms.rows(len(self._forms.text))
        if len(more):
            self._forms = self._forms.and_more(_Forms.of(more, self._shapes, self._dtypes))

    def rows(self, seen: Ints) -> dict[str, Ints]:
        """Saved values: node, slot, tensor, version, time, and whether it is packed."""
        self._learn()
        each = dict(zip(SAVED_COLUMNS, seen.T.copy(), strict=True))
        what, tensor, form, forms = each["what"], each["tensor"], each["form"], self._forms
        packed, plain = what == PACKED, what == PLAIN_VALUE
        tensor[packed] = NONE
        version = np.where(packed, 0, each["version"])
        own = np.flatnonzero(plain & (tensor < 0) & (each["own"] >= 0))
        own = own[self._shape_of_layout[each["layout"][own]] == forms.shape_number[form[own]]]
        tensor[own] = each["own"][own]
        memory = np.stack([each["walk"], each["data"], each["bytes"]], 1)
        storage = np.full(len(tensor), NONE)
        storage[plain] = self._storages(memory[plain])
        self._complete(np.flatnonzero(plain & (tensor >= 0)), tensor, form, storage, version)
        constant = np.flatnonzero(plain & (tensor < 0))
        if len(constant):
            its = form[constant]
            place = each["data"][constant] + each["offset"][constant] * forms.width[its]
            place[forms.bytes[its] == 0] = 0
            keys = np.stack([each["walk"][constant], place, its], 1)
            made = tensor[constant] == OF_UNMET
            more = storage[constant], version[constant], made
            tensor[constant] = self._constants(keys, *more)
        whole = np.zeros(len(tensor), np.int64)
        whole[~packed] = forms.whole[form[~packed]]
        operands = each["operand"] != 0
        self.operands.append(
            np.stack([each[name][operands] for name in ("node", "slot", "tensor")])
        )
        t = np.maximum(each["t"] - self._session.start, 0)
        return {
            "node": each["node"], "slot": self._slots[each["slot"]], "tensor": tensor,
            "version": version, "t": t, "hooked": packed.astype(np.int64),
            "data": np.where(packed, 0, each["data"]), "counter": each["counter"],
            "walk": each["walk"], "storage": storage, "whole": whole,
            "own": (each["own"] >= 0).astype(np.int64), "address": each["operand"],
        }  # fmt: skip

    def _storages(self, memory: Ints) -> Ints:
        """Numbers of storages (traversal, address, size), unique per traversal and address.

        New ones are numbered in the order in which they were found, which does not depend on
        addresses: so equal runs get equal numbers.
        """
        order = np.lexsort(memory.T)
        rows = memory[order]
        new = np.ones(len(rows), bool)
        new[1:] = (rows[1:] != rows[:-1]).any(1) | (rows[1:, 1] == 0)
        which = np.empty(len(rows), np.int64)
        which[order] = np.cumsum(new) - 1
        first, which = _by_first(order[new], which)
        return self._tensors.storages.at(self._device, memory[first], self._session.start)[which]

    def _complete(
        self, places: Ints, tensor: Ints, form: Ints, storage: Ints, version: Ints
    ) -> None:
        """The metadata of outputs of nodes."""
        places = places[np.unique(tensor[places], return_index=True)[1]]
        if len(places):
            columns = storage[places], version[places]
            steps = self._forms.strides.take(form[places])
            self._tensors.completed(Completed(tensor[places], steps, *columns))

    def _constants(self, keys: Ints, storage: Ints, version: Ints, made: Bools) -> Ints:
        """Numbers of tensors without a node, unique per traversal and memory.

        Keys: traversal, address, form. Made: created by a node that no traversal has found.
        """
        first, which = _first_of_each(keys)
        keys = keys[first]
        number = np.full(len(keys), NONE)
        if self._tensors.constants:  # some were read from Python
            number[:] = [self._tensors.constants.get(key, NONE) for key in self._names_of(keys)]
        new = np.flatnonzero(number == NONE)
        number[new] = self._tensors.numbers.several(len(new))
        buffers = self._tensors.buffers
        at = new[np.isin(keys[new, 1], buffers.addresses())]
        buffers.name(zip(number[at].tolist(), self._names_of(keys[at]), strict=True))
        form, forms, nothing = keys[new, 2], self._forms, np.zeros(len(new), np.int64)
        self._tensors.found({
            "id": number[new], "shape": forms.shape.take(form),
            "strides": forms.strides.take(form), "dtype": forms.text[form],
            "device": nothing + self._device, "storage": storage[first][new],
            "bytes": forms.bytes[form], "version": version[first][new], "leaf": ~made[first][new],
            "requires_grad": made[first][new], "op": nothing + NONE,
        })  # fmt: skip
        return number[which]

    def _names_of(self, keys: Ints) -> list[Any]:
        """The keys that `PyTorchTensors.key` would return for these tensors."""
        forms = self._forms
        shapes, strides = (each.take(keys[:, 2]).tuples() for each in (forms.shape, forms.strides))
        texts = forms.text[keys[:, 2]].tolist()
        walks, places, _ = keys.T.tolist()
        return list(zip(walks, places, shapes, strides, texts, strict=True))


class _Forms(NamedTuple):
    """The meanings of numbers of forms, in columns."""

    text: Ints
    width: Ints  # bytes of an element
    shape_number: Ints
    shape: Ragged
    strides: Ragged
    bytes: Ints
    whole: Ints  # number of elements if they are contiguous; else 0

    @classmethod
    def of(
        cls,
        rows: Ints,
        shapes: dict[tuple[int, ...], int],
        dtypes: dict[int, tuple[int, int]],
    ) -> _Forms:
        """Add the forms that a traversal recorded, and number new shapes."""
        text, width = (
            np.array([dtypes[code] for code in rows[:, 0].tolist()], np.int64).reshape(-1, 2).T
        )
        own = np.arange(INLINE) < rows[:, 1:2]
        sizes, steps = rows[:, 2 : 2 + INLINE], rows[:, 2 + INLINE :]
        shape = Ragged.of_lengths(rows[:, 1], sizes[own])
        sizes = np.where(own, sizes, 1)
        behind = np.cumprod(sizes[:, ::-1], axis=1)[:, ::-1]
        next_to = np.concatenate([behind[:, 1:], np.ones((len(rows), 1), np.int64)], axis=1)
        in_order = (~own | (sizes == 1) | (steps == next_to)).all(1)
        numbers = [shapes.setdefault(each, len(shapes)) for each in shape.tuples()]
        return cls(
            text, width, np.array(numbers, np.int64),
            shape, Ragged.of_lengths(rows[:, 1], steps[own]), behind[:, 0] * width,
            np.where(in_order, behind[:, 0], 0),
        )  # fmt: skip

    def and_more(self, new: _Forms) -> _Forms:
        """The concatenation of two columns."""
        both: Any = zip(self, new, strict=True)
        made: Any = map(concatenate, both)
        return _Forms(*made)


def _first_of_each(rows: Ints) -> tuple[Ints, Ints]:
    """The first index of each distinct row, and for each row the index among these."""
    with np.errstate(over="ignore"):
        mixed = rows @ _MIXING
    _, first, which = np.unique(mixed, return_index=True, return_inverse=True)
    if not (rows[first][which] == rows).all():  # each row is hashed to one number
        _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return _by_first(first, which.reshape(-1))


def _by_first(first: Ints, which: Ints) -> tuple[Ints, Ints]:
    """The same, in rising order of the first index."""
    order = np.argsort(first)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return first[order], place[which]


_MIXING = np.random.default_rng(0).integers(-(1 << 62), 1 << 62, 3) * 2 + 1
