"""Data that the runtime's C functions need, as arrays of words.

A callable keeps its data alive; the data never refers to its callables (see notes/c_functions).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gradscope.machine_code.callables import Callables, offset
from gradscope.record.from_runtime.c_functions import telling as made_of
from gradscope.record.notes.c_functions.note_buffers import Counter, NumberBuffer, SiteTable

if TYPE_CHECKING:
    from gradscope.machine_code.seldom import Seldom


class ReadsArguments(Protocol):
    """Reads arguments that nodes store in addition to tensors, only occasionally."""

    @property
    def seldom(self) -> Seldom: ...

    def read(self, node: Any) -> None: ...


class CallTeller:
    """The C function `noted` with its data. Other than ordinary calls are passed to `ask`."""

    def __init__(
        self,
        functions: Callables,
        logs: Iterable[NumberBuffer],
        table: SiteTable,
        counter: Counter,
        base: int,
        layouts: dict[Any, int],
        slots: Iterable[tuple[type, str]],
        arguments: ReadsArguments,
        ask: Callable[..., Any],
    ) -> None:
        one, two = logs
        seldom, read = arguments.seldom, arguments.read
        kept = (one, two, table, counter, layouts, seldom, read, ask)
        self._kept = kept  # the words contain addresses of these
        addresses = (each.words.ctypes.data for each in (one, two, table, counter))
        self.words = np.array([
            *addresses, base, id(layouts), id(ask), id(None), id(True),
            *(offset(kind, name) for kind, name in slots), id(perf_counter_ns), 0, 0, 0, 0, 0,
            seldom.words.ctypes.data, id(read),
        ], np.int64)  # fmt: skip
        self._functions = functions

    @property
    def noted(self) -> Any:
        """Records a call."""
        return self._functions.over(made_of.noted, self)

    def __del__(self) -> None:
        """Release the shape that the words still hold."""
        shape = int(self.words[made_of.LAST_SHAPE // 8])
        if shape:
            ctypes.pythonapi.Py_DecRef(ctypes.c_void_p(shape))


class Follower:
    """The C functions `ran`, `sent` and `counted`. When a buffer is full, they call `asked`."""

    def __init__(
        self,
        functions: Callables,
        logs: Iterable[NumberBuffer],
        slots: Iterable[tuple[type, str]],
        asked: Iterable[Callable[..., Any]],
        rest: Callable[[], Any],
    ) -> None:
        runs, moves = logs
        self._kept = (runs, moves, ran, sent) = (runs, moves, *asked)  # the words contain addresses
        self._rest = rest
        self.words = np.array([
            runs.words.ctypes.data, moves.words.ctypes.data,
            *(offset(kind, name) for kind, name in slots), id(ran), id(sent), id(None),
            0, id(rest), 0, 0, 0,
        ], np.int64)  # fmt: skip
        self._functions = functions

    @property
    def ran(self) -> Any:
        """Records the run of a node."""
        return self._functions.over(made_of.ran, self)

    @property
    def sent(self) -> Any:
        """Records a gradient that a node passed on."""
        return self._functions.over(made_of.sent, self)

    def rest_after(self, due: int) -> None:
        """Call `rest` at the end of the first run that ends later than this."""
        self.words[made_of.DUE // 8] = due

    def counted(self, counts: dict[Any, int]) -> NDArray[np.int64]:
        """The numbers of nodes, and in the second row their counts."""
        made = np.zeros((2, len(counts)), np.int64)
        self._functions.over(made_of.counted, self)(counts, made.ctypes.data, len(counts))
        return made
