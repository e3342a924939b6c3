"""Rows of calls in columns: derived from nodes, then completed with observed calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradscope.record.from_pytorch.called.nesting import OPEN
from gradscope.record.from_pytorch.called.writes import PyTorchWrite, writes_to_first
from gradscope.trace import schema
from gradscope.trace.ragged import Ragged, concatenate
from gradscope.trace.schema import NONE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gradscope.record.from_pytorch.called.pytorch_calls import PyTorchCalls

Ints = NDArray[np.int64]

WRITTEN = ("id", "name", "begin", "inputs", "outputs", "node", "module", "stack", "thread", "task",
           "step", "phase", "end")  # fmt: skip
COLUMNS = (*WRITTEN, "sequence", "first")
"""Additional columns: the number of its node, and the tensor that is its first input, if known."""

LISTS = ("inputs", "outputs")

VIEWED_ANEW = "as_strided"
"""The node that a view gets in the middle of a write, when its base was written to before. It is
not the node of the write: its result is the view, not what was written to.
"""


class Ops:
    """Calls that created nodes, in columns."""

    def __init__(self, parts: Sequence[dict[str, Any]]) -> None:
        self._columns: dict[str, Any] = {
            name: concatenate([part[name] for part in parts]) for name in COLUMNS if parts
        }
        self.inputs: Ragged = self._columns.get("inputs") or Ragged.of([])
        self.outputs: Ragged = self._columns.get("outputs") or Ragged.of([])
        self.sources = self.inputs
        """Inputs according to edges: those with a destination."""

        self.last = np.zeros(0, np.int64)
        """Indices of observed calls; if a call created several nodes, the last one has its times.
        """

        self.rows = np.zeros(0, np.int64)
        """The rows of the observed calls."""

        self.is_alone = np.zeros(0, np.bool_)
        """Whether they have created exactly one node."""

        self._made = np.zeros((2, 0), np.int64)  # creation time and thread of each node

    def __len__(self) -> int:
        return len(self.outputs)

    def column(self, name: str) -> Ints:
        found: Ints = self._columns[name]
        return found

    def with_operands(self, nodes: Ints, tensors: Ints) -> None:
        """Add inputs: saved tensors of nodes (by number) that no node created."""
        numbers = self.column("id")
        if not len(numbers):
            return
        order = np.argsort(numbers, kind="stable")
        at = np.minimum(np.searchsorted(numbers[order], nodes), len(numbers) - 1)
        mine = numbers[order][at] == nodes
        owners = np.concatenate([self.inputs.owners, order[at[mine]]])
        values = np.concatenate([self.inputs.values, tensors[mine]])
        pairs = owners * (int(values.max(initial=0)) + 2) + values
        first = np.ones(len(pairs), np.bool_)  # existing inputs are not repeated
        later = np.arange(len(self.inputs.values), len(pairs))
        _, begin = np.unique(pairs, return_index=True)
        first[later] = np.isin(later, begin)
        order = np.argsort(owners[first], kind="stable")
        lengths = np.bincount(owners[first], minlength=len(numbers))
        self.inputs = Ragged.of_lengths(lengths, values[first][order])

    def seen(
        self, calls: PyTorchCalls, idents: dict[int, int], start: int, intern: Callable[[str], int]
    ) -> tuple[int, list[PyTorchWrite]]:
        """Use the data of observed calls.

        Returns the number of missed calls, and the calls that wrote to their first input.
        """
        if calls.observer is None or not len(self):
            return 0, []
        known = np.zeros(max(idents, default=0) + 2, np.int64)
        known[list(idents)] = list(idents.values())
        made, thread = self.column("begin") + start, known[self.column("thread")]
        self._made = np.stack([made, thread])
        at = calls.of(thread, self.column("sequence"), made)
        places = np.flatnonzero(at >= 0)
        at_places = at[places]
        words, which = np.unique(calls.words(at_places), return_inverse=True)
        names = [calls.name(word) for word in words.tolist()]
        texts = np.array([intern(name) if name else NONE for name in names], np.int64)[which]
        anew = self.column("name")[places] == intern(VIEWED_ANEW)
        self.column("name")[places[texts >= 0]] = texts[texts >= 0]
        ends, firsts, many = np.unique(at_places[::-1], return_index=True, return_counts=True)
        self.last = places[len(places) - 1 - firsts]
        begin, end, self.rows = calls.times(ends)
        self.is_alone = many == 1
        self.column("begin")[self.last] = begin - start
        self.column("end")[self.last] = np.where(end == OPEN, NONE, end - start)
        writing = np.array([writes_to_first(name) for name in names], bool)[which]
        writers = places[writing & ~anew & (self.column("first")[places] != NONE)]
        return calls.had_one(made[at < 0]), self._writes(writers, start)

    def made_in(self, begin: Ints, end: Ints, thread: Ints) -> Any:
        """Whether any of these nodes was created in these periods of a thread."""
        t, threads = self._made
        found = np.zeros(len(begin), np.bool_)
        for each in np.unique(thread).tolist():
            own, asked = np.sort(t[threads == each]), thread == each
            first = np.searchsorted(own, begin[asked])
            found[asked] = np.append(own, np.iinfo(np.int64).max)[first] <= end[asked]
        return found

    def _writes(self, places: Ints, start: int) -> list[PyTorchWrite]:
        end, (made, idents) = self.column("end")[places], self._made[:, places]
        at = np.where(end == NONE, made - start, end)
        names = ("id", "first", "stack", "thread")
        columns = [*(self.column(name)[places] for name in names), at, made, idents]
        return [
            PyTorchWrite(*row) for row in zip(*(each.tolist() for each in columns), strict=True)
        ]

    def write(self, write: Any) -> None:
        """Pass all calls to the writer."""
        if len(self):
            columns = {name: self._columns[name] for name in WRITTEN}
            write(schema.Op, columns | {"inputs": self.inputs, "outputs": self.outputs})


def of_rows(rows: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    """The columns of calls that were found row by row."""
    columns = dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
    return {
        name: Ragged.of(cells) if name in LISTS else np.array(cells, np.int64)
        for name, cells in columns.items()
    }
