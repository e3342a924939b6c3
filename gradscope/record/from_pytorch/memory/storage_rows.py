"""Numbers and rows of storages, dtypes and devices of PyTorch tensors."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.record.notes.log import Ints, take_all
from gradscope.trace import schema
from gradscope.trace.schema import NONE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gradscope.trace.writer import Writer

SIZES = {
    "float64": 8, "int64": 8, "complex64": 8, "complex128": 16, "float32": 4, "int32": 4,
    "float16": 2, "bfloat16": 2, "int16": 2, "uint16": 2, "uint32": 4, "uint64": 8, "complex32": 4,
}  # fmt: skip
"""Bytes of an element, for dtypes that are larger than one byte."""


class OtherNumbers:
    """Assigns numbers to things other than nodes, one or several at a time."""

    def __init__(self, one: Callable[[], int]) -> None:
        self.one = one
        self.several: Callable[[int], Ints] = self._one_by_one

    def _one_by_one(self, many: int) -> Ints:
        return np.fromiter((self.one() for _ in range(many)), np.int64, many)


class DtypesAndDevices:
    """The names of dtypes, and the rows of devices."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._dtypes: dict[Any, tuple[int, int]] = {}
        self._devices: dict[Any, int] = {}
        self._rows: list[tuple[int, int]] = []

    def dtype(self, dtype: Any) -> tuple[int, int]:
        """The text id of a dtype's name, and the size of an element in bytes."""
        known = self._dtypes.get(dtype)
        if known is None:
            name = "" if dtype is None else str(dtype).removeprefix("torch.")
            known = self._dtypes[dtype] = self._writer.intern(name), SIZES.get(name, 1)
        return known

    def device(self, device: Any) -> int:
        """The id of a device; NONE for None."""
        if device is None:
            return schema.NONE
        known = self._devices.get(device)
        if known is None:
            known = self._devices[device] = len(self._devices)
            self._rows.append((known, self._writer.intern(str(device))))
        return known

    def in_memory(self, shape: Any, dtype: Any, device: Any) -> tuple[int, int, int]:
        """The text id of a dtype, the id of a device, and the size in bytes of an array."""
        text, size = self.dtype(dtype)
        count = prod(shape) if NONE not in shape else 0
        return text, self.device(device), count * size

    def flush(self) -> None:
        """Pass new devices to the writer."""
        put(self._writer.block, schema.Device, ("id", "name"), self._rows)


class StorageRows:
    """The storages of tensors, identified by traversal, device, address and size."""

    def __init__(
        self, writer: Writer, now: Callable[[], int], numbers: OtherNumbers, kinds: DtypesAndDevices
    ) -> None:
        self._writer = writer
        self._now = now
        self._numbers = numbers
        self._kinds = kinds
        self.walk = 0  # addresses are only comparable within one traversal, while nothing is freed
        self.address: Callable[[Any], int] = _nowhere
        """Returns the address of a tensor's memory."""
        self.large_from = 1 << 62
        """Smallest storage in bytes that `followed` numbers and whose release it reports."""
        self.followed: Callable[[int, int, int], int] = _nobody_follows
        self._known: dict[tuple[int, int, int, int], int] = {}
        self._rows: list[tuple[int, int, int, int]] = []
        self._columns: list[dict[str, Any]] = []

    def of(self, tensor: Any) -> int:
        """The number of a tensor's storage."""
        memory = tensor.untyped_storage()
        device = self._kinds.device(tensor.device)
        first, size = self.address(tensor), memory.nbytes()  # 0 for a tensor without memory
        size = size if type(size) is int else 0  # symbolic, while torch.compile traces
        address = first - tensor.storage_offset() * tensor.element_size() if first else 0
        if size >= self.large_from and address:
            return self.followed(memory._cdata, device, size)
        key = (self.walk, device, address, size)
        found = self._known.get(key) if address else None
        if found is None:
            found = self._known[key] = self._numbers.one()
            self._rows.append((found, size, device, self._now()))
        return found

    def know(self, number: int, walk: int, device: int, address: int, size: int) -> None:
        """Set the number of the storage at this address during a traversal."""
        self._known[walk, device, address, size] = number

    def at(self, device: int, seen: Ints, start: int) -> Ints:
        """The numbers of storages found by traversals: rows of traversal, address, size."""
        known = np.full(len(seen), NONE)
        if self._known:  # some were numbered from Python
            known[:] = [
                self._known.get((walk, device, address, size), NONE) if address else NONE
                for walk, address, size in seen.tolist()
            ]
        new = np.flatnonzero(known == NONE)
        known[new] = number = self._numbers.several(len(new))
        columns = {"id": number, "bytes": seen[new, 2], "device": np.full(len(new), device)}
        self._columns.append(columns | {"born": seen[new, 0] - start})
        return known

    def flush(self) -> None:
        """Pass new rows to the writer, and forget addresses: earlier traversals are over."""
        self._known.clear()
        put(self._writer.block, schema.Storage, ("id", "bytes", "device", "born"), self._rows)
        for columns in take_all(self._columns):
            self._writer.block(schema.Storage, columns)


def _nobody_follows(storage: int, device: int, size: int) -> int:
    raise NotImplementedError


def _nowhere(tensor: Any) -> int:
    """The address of a tensor before PyTorch is watched."""
    return 0


def put(
    write: Any, row: Any, names: Sequence[str], waiting: list[Any], *, amend: bool = False
) -> None:
    """Pass waiting rows to the writer by column. Rows that are appended meanwhile are kept.

    `zip` would create an iterator for each row and so trigger the program's garbage collection.
    """
    rows = take_all(waiting)
    if rows:
        columns = {name: [row[place] for row in rows] for place, name in enumerate(names)}
        write(row, columns, amend=amend)
