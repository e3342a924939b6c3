"""Shapes and dtypes of results, each kept once."""

from __future__ import annotations

from math import prod
from threading import RLock
from typing import TYPE_CHECKING, Any

from gradscope.record.hot.log import taken
from gradscope.runtime.core.dtypes import dtypes
from gradscope.trace.shorthand.tables import Layout

if TYPE_CHECKING:
    from gradscope.trace.writer import Writer


class Layouts:
    """Numbers for (shape, dtype)."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._lock = RLock()
        self.known: dict[Any, int] = {}
        self._new: list[tuple[int, tuple[int, ...], int, int]] = []

    def of(self, meta: Any) -> int:
        """The number of a layout; `meta` is a tuple that holds one (shape, dtype)."""
        found = self.known.get(meta)
        return self._add(meta) if found is None else found

    def _add(self, meta: Any) -> int:
        with self._lock:
            found = self.known.get(meta)
            if found is None:
                found = len(self.known)
                shape, dtype = meta[0]
                name = self._writer.intern(dtypes.from_numpy(dtype).name)
                self._new.append((found, tuple(shape), name, prod(shape) * dtype.itemsize))
                self.known[meta] = found
            return found

    def flush(self) -> None:
        new = taken(self._new)
        if new:
            id, shape, dtype, size = map(list, zip(*new, strict=True))
            columns = {"id": id, "shape": shape, "dtype": dtype, "bytes": size}
            self._writer.block(Layout, columns)
