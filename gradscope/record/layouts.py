"""Shapes and dtypes of results, each kept once."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.runtime import dtypes
from gradscope.trace.schema import NONE
from gradscope.trace.shorthand.tables import Layout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gradscope.trace.writer import Writer


class Layouts:
    """Numbers for (shape, dtype)."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._known: dict[Any, int] = {}
        self._new: list[tuple[int, tuple[int, ...], int, int]] = []

    def of(self, metas: list[Any]) -> NDArray[np.int64]:
        """The number of each; `metas` are tuples that hold one (shape, dtype) each."""
        known = self._known
        found = [known.get(meta, NONE) for meta in metas]
        if NONE in found:
            found = [self._number(meta) for meta in metas]
        return np.fromiter(found, np.int64, len(found))

    def _number(self, meta: Any) -> int:
        found = self._known.get(meta)
        if found is None:
            found = self._known[meta] = len(self._known)
            shape, dtype = meta[0]
            name = self._writer.intern(dtypes.from_numpy(dtype).name)
            self._new.append((found, tuple(shape), name, prod(shape) * dtype.itemsize))
        return found

    def flush(self) -> None:
        new, self._new = self._new, []
        if new:
            id, shape, dtype, size = map(list, zip(*new, strict=True))
            columns = {"id": id, "shape": shape, "dtype": dtype, "bytes": size}
            self._writer.block(Layout, columns)
