"""Shapes and dtypes of results, each stored once."""

from __future__ import annotations

from math import prod
from threading import RLock
from typing import TYPE_CHECKING, Any

from gradscope.record.notes.log import take_all
from gradscope.trace.shorthand.tables import ShortLayout

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradscope.trace.writer import Writer


class Layouts:
    """Numbers for (shape, dtype)."""

    def __init__(self, writer: Writer, large: int, named: Callable[[Any], str]) -> None:
        """`named`: name of a dtype; from `large` bytes on, C functions know no layout."""
        self._writer = writer
        self._large = large
        self._named = named
        self._lock = RLock()
        self.known: dict[Any, int] = {}
        self._known_large: dict[Any, int] = {}  # C functions do not record calls with such results
        self._new: list[tuple[int, tuple[int, ...], int, int]] = []

    def of(self, meta: Any) -> int:
        """The number of a layout; `meta` is a tuple that contains one (shape, dtype)."""
        found = self.known.get(meta)
        if found is None:
            found = self._known_large.get(meta)
        return self._add(meta) if found is None else found

    def _add(self, meta: Any) -> int:
        with self._lock:
            shape, dtype = meta[0]
            size = prod(shape) * dtype.itemsize
            known = self.known if size < self._large else self._known_large
            found = known.get(meta)
            if found is None:
                found = len(self.known) + len(self._known_large)
                name = self._writer.intern(self._named(dtype))
                self._new.append((found, tuple(shape), name, size))
                known[meta] = found
            return found

    def flush(self) -> None:
        new = take_all(self._new)
        if new:
            id, shape, dtype, size = map(list, zip(*new, strict=True))
            columns = {"id": id, "shape": shape, "dtype": dtype, "bytes": size}
            self._writer.block(ShortLayout, columns)
