"""What the probe notes while the program runs: flat lists of numbers, nothing else.

# Note [Writing little]
A forward call and its backward cost five microseconds in all, so a note may cost a few hundred
nanoseconds. The probe therefore keeps a handful of numbers of each. They are written
much as they were noted; what follows from them is worked out when the trace is read
(trace/shorthand).

# Note [Small lists]
A list of numbers takes 40 bytes for each. As long as all that was noted fits into a core's own
cache, noting costs half of what it costs in main memory; so lists are turned into arrays long
before there is a window's worth to write.
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
    """All rows so far, taken out of a list to which other threads may be adding.

    It has to stay the same list: who is about to add a row to it has looked it up already.
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
    """Hand what a log held to the writer, one row of the array per column."""
    if table.size:
        writer.block(row, dict(zip(names, table, strict=True)), amend=amend)


class Log:
    """Records of one kind: `width` numbers each, one after the other.

    Other threads may note at any time; a record is added in one step, so taking whole records
    needs no lock against them. Whoever rests or takes must be alone.
    """

    __slots__ = ("__weakref__", "_cells", "_list", "_taken", "buffer", "note", "width")

    def __init__(self, width: int) -> None:
        self.width = width
        cells: list[int] = []
        self._cells = cells
        self._taken: list[Ints] = []
        self.buffer: NumberBuffer | None = None

        def note(*numbers: int) -> None:  # it does not hold the log, which holds it
            cells.extend(numbers)

        self._list: Callable[..., Any] = note
        self.note = self._list

    def compile(self, functions: Callables) -> NumberBuffer:
        """From now on, note by a C function. See Note [Numbers without objects]."""
        from gradscope.record.notes.c_functions.note_buffers import NumberBuffer

        self.buffer = NumberBuffer(functions, self.width, self._list)
        self.note = self.buffer.push
        return self.buffer

    def finish(self) -> None:
        """Nobody takes any more: what is still noted goes to a list, as at first."""
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
        """All records so far, which stay to be taken."""
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
