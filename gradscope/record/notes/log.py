"""The notes of the probe while the program runs: flat lists of numbers, nothing else.

# Note [Writing little]
A forward call and its backward take five microseconds together, so a note may cost a few hundred
nanoseconds. The probe therefore stores a few numbers for each. They are written almost unchanged;
what follows from them is derived when the trace is read (trace/shorthand).

# Note [Small lists]
A list of numbers takes 40 bytes per number. While all notes fit into the cache of a core, noting
costs half of what it costs in main memory; so lists are converted to arrays long before there is
enough to write a window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from gradscope.machine_code.callables import Callables
    from gradscope.record.notes.c_functions.note_buffers import NumberBuffer
    from gradscope.trace.schema import Row
    from gradscope.trace.writer import Writer

Ints = NDArray[np.int64]
R = TypeVar("R")


def take_all(rows: list[R]) -> list[R]:
    """All rows so far, removed from a list to which other threads may be adding.

    It must stay the same list object: a thread about to add a row has already looked it up.
    """
    found = rows[:]
    del rows[: len(found)]
    return found


def columns_of(names: Sequence[str], rows: Sequence[Sequence[int]]) -> dict[str, list[int]]:
    """The columns of these rows, by name."""
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def put(
    writer: Writer, row: type[Row], names: Sequence[str], table: Ints, *, amend: bool = False
) -> None:
    """Pass the contents of a log to the writer, one row of the array per column."""
    if table.size:
        writer.block(row, dict(zip(names, table, strict=True)), amend=amend)


def latest(keys: Ints, t: Ints, asked: Ints, at: Ints) -> Ints:
    """For each requested key and time, the last record with that key until then, or -1."""
    if not len(keys) or not len(asked):
        return np.full(len(asked), -1)
    many = len(keys)
    both, times = np.concatenate([keys, asked]), np.concatenate([t, at])
    order = np.lexsort((np.arange(len(both)), times, both))
    place = np.maximum.accumulate(np.where(order < many, np.arange(len(order)), -1))
    found = np.full(len(both), -1)
    found[order] = np.where(place >= 0, order[place], -1)
    found = found[many:]
    return np.where((found >= 0) & (keys[found] == asked), found, -1)


class Log:
    """Records of one kind: `width` numbers each, one after the other.

    Other threads may add records at any time; this is atomic, so taking whole records needs no
    lock. Only one thread at a time may call `rest` or `take`.
    """

    __slots__ = ("__weakref__", "_cells", "_list", "_taken", "buffer", "note", "width")

    def __init__(self, width: int) -> None:
        self.width = width
        cells: list[int] = []
        self._cells = cells
        self._taken: list[Ints] = []
        self.buffer: NumberBuffer | None = None

        def note(*numbers: int) -> None:  # it does not refer to the log, which refers to it
            cells.extend(numbers)

        self._list: Callable[..., Any] = note
        self.note = self._list

    def compile(self, functions: Callables) -> NumberBuffer:
        """Use a C function from now on. See Note [Numbers without objects]."""
        from gradscope.record.notes.c_functions.note_buffers import NumberBuffer

        self.buffer = NumberBuffer(functions, self.width, self._list)
        self.note = self.buffer.push
        return self.buffer

    def finish(self) -> None:
        """Called when records are no longer taken: further ones go to a list, as at first."""
        self.note, self.buffer = self._list, None

    def __len__(self) -> int:
        noted = 0 if self.buffer is None else len(self.buffer)
        listed = len(self._cells) // self.width
        return noted + listed + sum(part.shape[1] for part in self._taken)

    def rest(self) -> None:
        """Turn a list into an array. See Note [Small lists]."""
        count = len(self._cells) // self.width
        if count:
            size = count * self.width
            cells = self._cells[:size]
            del self._cells[:size]
            self._taken.append(np.fromiter(cells, np.int64, size).reshape(-1, self.width).T)

    def so_far(self) -> Ints:
        """All records so far, without removing them."""
        table = self.take()
        if table.shape[1]:
            self._taken.append(table)
        return table

    def take(self) -> Ints:
        """All records so far, one row per column."""
        self.rest()
        parts = take_all(self._taken)
        if self.buffer is not None:
            parts.append(self.buffer.take())
        if len(parts) == 1:
            return np.ascontiguousarray(parts[0])
        return np.concatenate(parts, axis=1) if parts else np.zeros((self.width, 0), np.int64)
