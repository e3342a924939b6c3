"""Rows of PyTorch tensors: leaves, saved values and outputs of nodes, each described once."""

from __future__ import annotations

import weakref
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradscope.record.from_pytorch.called.buffers import BufferNames
from gradscope.record.from_pytorch.memory.exchange_rows import ExchangeRows
from gradscope.record.from_pytorch.memory.shards import ShardRows
from gradscope.record.from_pytorch.memory.storage_rows import (
    DtypesAndDevices,
    OtherNumbers,
    StorageRows,
    put,
)
from gradscope.record.notes.local_names import LeafNames
from gradscope.record.notes.log import Ints, take_all
from gradscope.trace import schema
from gradscope.trace.ragged import Ragged, concatenate
from gradscope.trace.schema import NONE
from gradscope.watch.in_place.sharded import local_part

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from gradscope.trace.writer import Writer

MOST_COMPLETE = 1 << 17
"""Number of described outputs that are remembered."""


class Completed(NamedTuple):
    """Memory layouts of outputs of nodes, in columns."""

    number: Ints
    strides: Ragged
    storage: Ints
    version: Ints


class PyTorchTensors:
    """Numbers of tensors and storages, and the rows that describe them."""

    def __init__(self, writer: Writer, now: Callable[[], int], numbers: OtherNumbers) -> None:
        self._writer = writer
        self.numbers = numbers
        self.kinds = DtypesAndDevices(writer)
        self.storages = StorageRows(writer, now, numbers, self.kinds)
        self._known: dict[int, tuple[weakref.ref[Any], int]] = {}  # keyed by id()
        self._rows: list[tuple[Any, ...]] = []
        self._complete: set[int] = set()
        self.merged: dict[int, int] = {}
        self._completions: list[tuple[Any, ...]] = []
        self._columns: list[Completed] = []
        self._ready: list[dict[str, Any]] = []  # rows that are already in columns
        self.constants: dict[Any, int] = {}  # tensors without a graph, by traversal and memory
        self.unseen: Callable[[], AbstractContextManager[object]] = nullcontext
        self.shards = ShardRows(writer, self.number_of)
        self.exchanges = ExchangeRows(writer, self.number_of, self.kinds)
        self.names = LeafNames(writer, self.shards.name)
        self.buffers = BufferNames(writer, self.key)
        self.told_as: Callable[[Any], tuple[int, int] | None] = _not_told
        """Returns the number of a tensor that already has a row and the number of its storage."""
        self._turned: list[tuple[int, bool, bool]] = []
        self.met: Callable[[Any, int, int], object] = _nobody_asks
        """Called with each leaf that gets a number, its number, and the number of its storage."""

    def is_unseen(self) -> AbstractContextManager[object]:
        """A context in which modes of the program do not see accesses to tensors."""
        return self.unseen()

    def number_of(self, tensor: Any) -> int:
        """The number of a leaf, or of a tensor without a graph."""
        known = self._known.get(id(tensor))
        if known is not None and known[0]() is tensor:
            return known[1]
        number, storage = self.told_as(tensor) or (self.numbers.one(), None)
        try:
            with self.unseen():
                if storage is None:
                    storage = self.describe(number, tensor, schema.NONE)
                else:
                    self._turned.append((number, tensor.is_leaf, tensor.requires_grad))
                self.met(tensor, number, storage)
                self.names.met(tensor, number)
        except RuntimeError:  # the shape of a lazy parameter is not known yet
            return schema.NONE
        self._known[id(tensor)] = weakref.ref(tensor, _Forget(self._known, id(tensor))), number
        self.shards.leaf(tensor, number)
        return number

    def leaves(self) -> list[Any]:
        """All leaves that have a number and are alive."""
        found = [weak() for weak, _ in list(self._known.values())]
        return [each for each in found if each is not None]

    def alive(self) -> list[int]:
        """The numbers of all leaves that are alive."""
        return [number for weak, number in list(self._known.values()) if weak() is not None]

    def describe(self, number: int, tensor: Any, op: int) -> int:
        """Add the row of an existing tensor. Returns the number of its storage."""
        text, size = self.kinds.dtype(tensor.dtype)
        shape, count = shape_of(tensor), tensor.numel()
        try:
            strides = strides_of(tensor)
            storage = self.storages.of(local_part(tensor))
        except (RuntimeError, NotImplementedError):  # no memory: sparse, nested or fake
            strides, storage = (), schema.NONE
        self._rows.append((
            number, shape, strides, text, self.kinds.device(tensor.device), storage,
            count * size if type(count) is int else 0,
            tensor._version if not tensor.is_inference() else 0,
            tensor.is_leaf, tensor.requires_grad, op,
        ))  # fmt: skip
        self.shards.described(number, tensor)
        return storage

    def key(self, tensor: Any) -> Any:
        """A key that is equal for tensors that are the same view of the same memory."""
        text, _ = self.kinds.dtype(tensor.dtype)
        place = self.storages.address(tensor)
        try:
            shape, strides = shape_of(tensor), strides_of(tensor)
        except (RuntimeError, NotImplementedError):
            return self.storages.walk, id(tensor)
        if not place and 0 not in shape:
            return self.storages.walk, id(tensor)
        return self.storages.walk, place, shape, strides, text

    def complete(self, number: int, tensor: Any) -> bool:
        """Describe the memory of a node's output when the tensor is available; once."""
        is_new = number not in self._complete
        if is_new:
            self._complete.add(number)
            self.shards.described(number, tensor)
            try:
                storage = self.storages.of(local_part(tensor))
                row = (number, strides_of(tensor), storage, tensor._version)
            except (RuntimeError, NotImplementedError):
                return is_new
            self._completions.append(row)
        return is_new

    def completed(self, outputs: Completed) -> None:
        """Describe the memory of several outputs."""
        known = self._complete
        numbers = outputs.number.tolist()
        new = np.array([number not in known for number in numbers], np.bool_)
        known.update(numbers)
        if len(known) > MOST_COMPLETE:
            self._complete = set(sorted(known)[-MOST_COMPLETE // 2 :])
        if not new.all():
            places = np.flatnonzero(new)
            number, strides, storage, version = outputs
            strides = strides.take(places)
            outputs = Completed(number[places], strides, storage[places], version[places])
        self._columns.append(outputs)

    def found(self, columns: dict[str, Any]) -> None:
        """Add rows of tensors that are already in columns."""
        self._ready.append(columns)

    def merge(self, same: Mapping[int, int]) -> dict[int, tuple[int, int]]:
        """Record that some tensors are the same as others.

        Returns storage and version of the others, if known.
        """
        self.merged.update(same)
        others = set(same.values())
        seen: dict[int, tuple[int, int]] = {}
        for number, storage, version in self._completed_of(np.array([*same, *others], np.int64)):
            target = same.get(number, number)
            if target in others:
                seen[target] = storage, max(version, seen.get(target, (0, 0))[1])
        return seen

    def _completed_of(self, wanted: Ints) -> list[tuple[int, int, int]]:
        """Number, storage and version of the requested tensors that are described."""
        rows = [(number, storage, version) for number, _, storage, version in self._completions[:]]
        for part in self._columns[:]:
            places = np.flatnonzero(np.isin(part.number, wanted))
            columns = (part.number[places], part.storage[places], part.version[places])
            rows += zip(*(column.tolist() for column in columns), strict=True)
        return rows

    def output(self, number: int, shape: Any, dtype: Any, device: Any, op: int) -> None:
        """Add the row of a call's result, from the metadata that its node stores."""
        text, where, size = self.kinds.in_memory(shape, dtype, device)
        self._rows.append((
            number, tuple(shape), (), text, where, schema.NONE, size, 0, False, True, op,
        ))  # fmt: skip

    def flush(self) -> None:
        """Pass new rows to the writer."""
        write = self._writer.block
        self.constants.clear()  # earlier traversals are over
        self.kinds.flush()
        self.storages.flush()
        names = ("id", "shape", "strides", "dtype", "device", "storage", "bytes", "version", "leaf",
                 "requires_grad", "op")  # fmt: skip
        rows, merged, self.merged = take_all(self._rows), self.merged, {}
        completed = self._all_completed(merged)
        for columns in take_all(self._ready):
            write(schema.Tensor, columns)
        put(write, schema.Tensor, names, rows)
        put(write, schema.Tensor, ("id", "leaf", "requires_grad"), self._turned, amend=True)
        if completed is not None:
            write(schema.Tensor, {
                "id": completed.number, "strides": completed.strides,
                "storage": completed.storage, "version": completed.version,
            }, amend=True)  # fmt: skip
        self.names.flush()
        self.buffers.flush()
        self.shards.flush(merged)
        self.exchanges.flush()

    def _all_completed(self, merged: Mapping[int, int]) -> Completed | None:
        """All described outputs, including the tensors that they were merged into."""
        parts, rows = take_all(self._columns), take_all(self._completions)
        if rows:
            number, strides, storage, version = (list(c) for c in zip(*rows, strict=True))
            parts.append(_completed(number, Ragged.of(strides), storage, version))
        if not parts:
            return None
        made = Completed(*map(concatenate, zip(*parts, strict=True)))  # type: ignore[arg-type]
        if merged:
            own = set(made.number.tolist())
            more: dict[int, int] = {}
            wanted = np.flatnonzero(np.isin(made.number, np.array([*merged], np.int64)))
            for place, number in zip(wanted.tolist(), made.number[wanted].tolist(), strict=True):
                if merged[number] not in own:
                    more.setdefault(merged[number], place)
            places = np.array([*more.values()], np.int64)
            others = _completed(
                [*more], made.strides.take(places), made.storage[places], [0] * len(more)
            )
            made = Completed(*map(concatenate, zip(made, others, strict=True)))  # type: ignore[arg-type]
        return made


def _nobody_asks(leaf: Any, number: int, storage: int) -> None:
    """The default of `PyTorchTensors.met`: does nothing."""


def _not_told(_tensor: Any) -> None:
    """The default of `PyTorchTensors.told_as`: no tensor has a row yet."""


def _completed(number: Any, strides: Ragged, storage: Any, version: Any) -> Completed:
    columns = (np.asarray(each, np.int64) for each in (number, storage, version))
    number, storage, version = columns
    return Completed(number, strides, storage, version)


def shape_of(tensor: Any) -> tuple[int, ...]:
    """The sizes of a tensor. NONE stands for a size of a nested tensor that is not a number."""
    try:
        sizes = tuple(tensor.shape)
    except RuntimeError:
        if not tensor.is_nested:  # nested, with the strided layout
            raise
        return (NONE,) * int(tensor.dim())
    return tuple(size if type(size) is int else NONE for size in sizes)


def strides_of(tensor: Any) -> tuple[int, ...]:
    """The strides of a tensor; () for a nested tensor, whose strides are not numbers."""
    found = tuple(tensor.stride())
    return found if all(type(each) is int for each in found) else ()


class _Forget:
    """Called when a tensor is freed, because another tensor may get its id."""

    __slots__ = ("_key", "_known")

    def __init__(self, known: dict[int, Any], key: int) -> None:
        self._known, self._key = known, key

    def __call__(self, gone: Any) -> None:
        kept = self._known.get(self._key)
        if kept is not None and kept[0] is gone:
            del self._known[self._key]
