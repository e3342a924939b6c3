"""Numbers and rows of tensors known only as operands of calls, and of their memory."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.record.from_pytorch.memory.storage_rows import SIZES, put
from gradscope.record.notes.log import Ints
from gradscope.trace import schema
from gradscope.trace.schema import NONE
from gradscope.watch.called import operand_rows as row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gradscope.trace.writer import Writer

TENSOR, STORAGE = row.WIDTH, row.WIDTH + 1
"""Additional columns of an operand: identities of tensor and memory (identities.py)."""


class TensorRows:
    """Numbers of tensors by identity, assigned when they are first written."""

    def __init__(
        self, writer: Writer, now: Callable[[], int], next_number: Callable[[], int]
    ) -> None:
        self._writer, self._now, self._next_number = writer, now, next_number
        self.kinds: dict[int, Any] = {}  # values of KIND: dtypes
        self._number: dict[int, int] = {}
        self._memory: dict[int, int] = {}
        self._first: dict[int, Ints] = {}  # first records of tensors without a row
        self._described: dict[int, int] = {}  # tensors with a row of ours: number of the memory
        self._op: dict[int, int] = {}  # numbers of written calls, by stamp
        self._own: dict[int, list[int]] = {}  # results of other calls, by stamp
        self._rows: list[tuple[Any, ...]] = []
        self._storages: list[tuple[int, int, int, int]] = []
        self._makers: list[tuple[int, int]] = []
        self._lies: list[tuple[int, int]] = []

    def begun(self, seen: Ints, new: Ints) -> None:
        """Add new tensors, each as returned by the outermost of the calls that created it."""
        chosen = seen[np.isin(seen[:, TENSOR], new)]
        chosen = chosen[np.lexsort((chosen[:, row.STAMP], chosen[:, row.CALL], chosen[:, TENSOR]))]
        _, first = np.unique(chosen[:, TENSOR], return_index=True)
        for each in chosen[first]:
            self._first[int(each[TENSOR])] = each

    def is_known(self, tensor: int, number: int, memory: int = NONE) -> None:
        """Set existing numbers of a tensor and its memory; its row is written elsewhere."""
        first = self._first.pop(tensor, None)
        if first is not None:
            storage = int(first[STORAGE])
            if memory != NONE:
                self._memory.setdefault(storage, memory)
            elif storage != NONE:
                self._lies.append((number, self._storage(first)))
        elif tensor not in self._number:
            return
        self._described.pop(tensor, None)
        self._number[tensor] = number

    def has(self, tensor: int) -> bool:
        """Whether it has a number."""
        return tensor in self._number

    def number(self, tensor: int) -> int:
        """The number of a tensor; its row is written later."""
        known = self._number.get(tensor)
        if known is None:
            known = self._number[tensor] = self._next_number()
            first = self._first.pop(tensor)
            self._describe(known, first)
            self._described[tensor] = self._storage(first)
        return known

    def told_of(self, tensors: Ints) -> Iterator[tuple[int, int] | None]:
        """The numbers of tensors and of their memory, as far as they have rows of ours."""
        for tensor in tensors.tolist():
            known = self._described.get(tensor)
            yield None if known is None else (self._number[tensor], known)

    def storage(self, memory: int) -> int:
        """The number of a memory block; NONE: it contains no recorded tensor."""
        return self._memory.get(memory, NONE)

    def _describe(self, number: int, first: Ints) -> None:
        kind = int(first[row.KIND])
        dtype, size = self._dtype(kind & (row.DIMS_FROM - 1))
        dims = (kind % row.NOT_PLAIN) // row.DIMS_FROM
        known = kind < row.NOT_PLAIN and dims <= row.DIMS
        shape = tuple(first[row.SIZES : row.SIZES + dims].tolist()) if known else (NONE,) * dims
        size = prod(shape) * size if known else 0
        made = first[row.AT] < 0
        op = self._op.get(int(first[row.CALL]), NONE) if made else NONE
        if made and op == NONE:
            self._own.setdefault(int(first[row.CALL]), []).append(number)
        node = int(first[row.NODE])
        self._rows.append((
            number, shape, (), dtype, NONE, self._storage(first), size,
            int(first[row.VERSION]), node <= row.A_LEAF, node != 0, op,
        ))  # fmt: skip

    def _dtype(self, kind: int) -> tuple[int, int]:
        name = str(self.kinds.get(kind, "")).removeprefix("torch.")
        return self._writer.intern(name), SIZES.get(name, 1)

    def _storage(self, first: Ints) -> int:
        storage = int(first[STORAGE])
        if storage == NONE:
            return NONE
        known = self._memory.get(storage)
        if known is None:
            known = self._memory[storage] = self._next_number()
            self._storages.append((known, int(first[row.BYTES]), NONE, self._now()))
        return known

    def told(self, stamps: Ints, ops: Ints) -> None:
        """Called when these calls have these numbers."""
        new = dict(zip(stamps.tolist(), ops.tolist(), strict=True))
        self._op |= new
        for stamp in sorted(self._own.keys() & new.keys()):
            self._makers += [(number, new[stamp]) for number in self._own.pop(stamp)]

    def forget(self, waiting: Ints, last: Ints) -> None:
        """Forget all identities except these, which are operands of calls not written yet.

        The last ones at each address are also kept.
        """
        tensors = {*waiting[:, TENSOR].tolist(), *last.tolist()}
        for known in (self._number, self._first, self._described):
            for gone in known.keys() - tensors:
                del known[gone]
        calls = set(waiting[:, row.CALL].tolist())
        for stamp in self._op.keys() - calls:
            del self._op[stamp]

    def flush(self) -> None:
        """Pass new rows to the writer."""
        write = self._writer.block
        names = ("id", "shape", "strides", "dtype", "device", "storage", "bytes", "version", "leaf",
                 "requires_grad", "op")  # fmt: skip
        put(write, schema.Storage, ("id", "bytes", "device", "born"), self._storages)
        put(write, schema.Tensor, names, self._rows)
        put(write, schema.Tensor, ("id", "op"), self._makers, amend=True)
        put(write, schema.Tensor, ("id", "storage"), self._lies, amend=True)
