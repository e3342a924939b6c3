"""Rows with statistics of tensors: a ring that callbacks and Python write to."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradscope.machine_code.callables import FAST, Callables
from gradscope.machine_code.interpreter import as_int, from_int
from gradscope.machine_code.language import Address, increase, load, store
from gradscope.machine_code.ring import Reader
from gradscope.watch.native.walk_memory import (
    NODE_COLUMNS,
    NODE_ROW,
    NODES,
    NODES_USED,
    SAVED,
    SAVED_COLUMNS,
    SAVED_ROW,
    SAVED_USED,
)
from gradscope.watch.values.devices.asked import ask, is_elsewhere
from gradscope.watch.values.divided import is_wrapper, measure_part
from gradscope.watch.values.measure import (
    SLOTS,
    bad_places,
    is_whole,
    measure,
    ready,
    slots_used,
    window_of,
)
from gradscope.watch.values.ring_rows import (
    A_LEAF,
    AN_OPERAND,
    BAD,
    HEAD,
    INDEX,
    KEY,
    MEASURED,
    NAN,
    PLACE,
    STAMP,
    STEP,
    TASK,
    TENSOR,
    TIME,
    VOID,
)
from gradscope.watch.values.statistics import StatisticsColumns, columns

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradscope.watch.values.devices.device_looks import DeviceLooks
    from gradscope.watch.values.divided import PartsOfTensors

Ints = NDArray[np.int64]

WIDTH = HEAD + MEASURED
CAPACITY = 1 << 16

_rows = np.zeros((CAPACITY, WIDTH), np.int64)
_state = np.zeros(4, np.int64)  # number of rows; unreadable tensors; calls of hooks; with NaN
_counted = memoryview(_state.data)  # faster to read
ROWS, COUNTED = Address(_rows.ctypes.data, "values"), Address(_state.ctypes.data, "counted")
MASK, ROW = CAPACITY - 1, 8 * WIDTH
UNREAD, HOOKS, WITH_NAN = (COUNTED + 8 * n for n in (1, 2, 3))
TO_MEASURED, BAD_SLOT, NAN_SLOT = (8 * (HEAD + n) for n in (0, BAD, NAN))
LEAF, MADE, FIRST = (8 * NODE_COLUMNS.index(name) for name in ("leaf", "t", "first"))
KEPT, KEPT_AT = (8 * SAVED_COLUMNS.index(name) for name in ("operand", "t"))
MANY = 1 << 13
"""Number of rows from which the ring is read, even if they are not requested yet."""


def put(
    place: int, index: int, key: int, t: int, tensor: int, task: int, step: int, address: int
) -> int:
    """Write the row of the tensor at an address. Its stamp comes last: then it is complete."""
    count = increase(COUNTED, 1)
    row = ROWS + (count & MASK) * ROW
    store(row, 0)
    store(row + 8 * TIME, t)
    store(row + 8 * PLACE, place)
    store(row + 8 * INDEX, index)
    store(row + 8 * KEY, key)
    store(row + 8 * TENSOR, tensor)
    store(row + 8 * TASK, task)
    store(row + 8 * STEP, step)
    done = measure(address, row + TO_MEASURED)
    if done == 0:
        done = 2 * ask(address, row + TO_MEASURED)
    if done == 0:
        done = measure_part(address, row + TO_MEASURED)
    if done < 1:
        store(row + 8 * PLACE, VOID)
        if done == 0:
            increase(UNREAD, 1)
    elif done == 1 and load(row + NAN_SLOT) != 0:
        increase(WITH_NAN, 1)
    store(row, count + 1)
    return count + 1


def is_good(stamp: int) -> int:
    """Whether a row exists without bad elements: a view may change their indices."""
    row = ROWS + ((stamp - 1) & MASK) * ROW
    return load(row) == stamp and load(row + 8 * PLACE) != VOID and load(row + BAD_SLOT) == 0


def is_bad(stamp: int) -> int:
    """Whether a row exists that has bad elements."""
    row = ROWS + ((stamp - 1) & MASK) * ROW
    return load(row) == stamp and load(row + 8 * PLACE) != VOID and load(row + BAD_SLOT) != 0


def put_same(place: int, index: int, key: int, t: int, stamp: int) -> int:
    """Write a row with the same statistics as another."""
    former = ROWS + ((stamp - 1) & MASK) * ROW
    count = increase(COUNTED, 1)
    row, i = ROWS + (count & MASK) * ROW, 1
    store(row, 0)
    while i < WIDTH:
        store(row + 8 * i, load(former + 8 * i))
        i += 1
    store(row + 8 * TIME, t)
    store(row + 8 * PLACE, place)
    store(row + 8 * INDEX, index)
    store(row + 8 * KEY, key)
    store(row, count + 1)
    return count + 1


def look(self: int, arguments: int, given: int) -> int:  # noqa: ARG001 -- how Python calls it
    """`put`, called from Python."""
    return from_int(
        put(
            as_int(load(arguments)), as_int(load(arguments + 8)), as_int(load(arguments + 16)),
            as_int(load(arguments + 24)), as_int(load(arguments + 32)),
            as_int(load(arguments + 40)), as_int(load(arguments + 48)),
            as_int(load(arguments + 56)),
        )
    )  # fmt: skip


# Note [Tensors listed first]
# While Python measures a tensor on a device, or looks for the part of a DTensor, other threads run,
# and may flush the rows of the traversal. So such tensors are only listed, and measured when the
# rows are no longer needed. Until then the graph keeps them alive, whose roots the caller holds.
ELSEWHERE = 48
"""Bytes of a listed tensor."""
MOST_ELSEWHERE = 1 << 14


def put_or_list(
    place: int, index: int, key: int, t: int, tensor: int, step: int, address: int,
    others: int, end: int,
) -> int:  # fmt: skip
    """Write a row, or list a tensor on a device or a DTensor. Returns the end of the list."""
    if is_elsewhere(address) == 0 and is_wrapper(address) == 0:
        put(place, index, key, t, tensor, -1, step, address)
        return others
    if others == end:
        increase(UNREAD, 1)
        return others
    store(others, place)
    store(others + 8, index)
    store(others + 16, key)
    store(others + 24, t)
    store(others + 32, tensor)
    store(others + 40, address)
    return others + ELSEWHERE


def look_at_walked(self: int, arguments: int, given: int) -> int:  # noqa: ARG001 -- likewise
    """Write rows of the leaves of a native traversal, and of saved values that no node created.

    Arguments: the words of the graph; the first row of nodes, and of saved values; the step; memory
    for what is ELSEWHERE, and its end. For saved values, KEY is the node and INDEX the number of
    the slot. Returns the end of what is elsewhere. See Note [Tensors listed first].
    """
    others, end = as_int(load(arguments + 32)), as_int(load(arguments + 40))
    graph, at = as_int(load(arguments)), as_int(load(arguments + 8))
    kept, step = as_int(load(arguments + 16)), as_int(load(arguments + 24))
    used = load(graph + NODES_USED)
    while at < used:
        row = load(graph + NODES) + NODE_ROW * at
        if load(row + LEAF) != 0:
            others = put_or_list(
                A_LEAF, 0, -1, load(row + MADE), load(row + FIRST), step, load(row + LEAF),
                others, end,
            )  # fmt: skip
        at += 1
    used_by_kept = load(graph + SAVED_USED)
    while kept < used_by_kept:
        row = load(graph + SAVED) + SAVED_ROW * kept
        if load(row + KEPT) != 0:
            node, slot, t = load(row), load(row + 8), load(row + KEPT_AT)
            others = put_or_list(AN_OPERAND, slot, node, t, -1, step, load(row + KEPT), others, end)
        kept += 1
    return from_int(others)


class RingRead(NamedTuple):
    """Complete rows since the last reading."""

    rows: Ints
    lost: int
    bad: dict[int, tuple[int, ...]]
    """By stamp: the indices of the first bad elements."""


class Ring:
    """Reads the rows of one recording, in one thread at a time."""

    devices: DeviceLooks | None = None
    """What measures tensors on devices, if machine code can ask it."""
    parts: PartsOfTensors | None = None
    """What knows the parts of DTensors, likewise."""

    def __init__(self) -> None:
        self._reader = Reader(_rows, _state, STAMP)
        self._unread, self._with_nan = int(_state[1]), int(_state[3])
        self.words = np.zeros(1, np.int64)
        self._slots = self._first_slot = slots_used()
        self.look: Callable[..., Any] = functions().over(look, self)
        self._walked: Callable[..., int] = functions().over(look_at_walked, self)
        self._elsewhere = np.zeros((MOST_ELSEWHERE, ELSEWHERE // 8), np.int64)

    def look_at_walked(self, graph: int, nodes: int, kept: int, step: int) -> None:
        """Measure the leaves and saved values of a native traversal, from these rows on."""
        begin, size = self._elsewhere.ctypes.data, self._elsewhere.nbytes
        end = self._walked(graph, nodes, kept, step, begin, begin + size)
        rows = self._elsewhere[: (end - begin) // ELSEWHERE].tolist()
        tensors = [self._held_at(row[-1]) for row in rows]
        for (place, index, key, t, number, _), tensor in zip(rows, tensors, strict=True):
            if tensor is None:
                _counted[1] += 1
            else:
                self.look(place, index, key, t, number, -1, step, tensor._cdata)

    def _held_at(self, address: int) -> Any:
        """The plain tensor that a listed one stands for; None: there is none."""
        if self.parts is not None and self.parts.is_wrapper_at(address):
            return self.parts.local_at(address)
        asked = None if self.devices is None else self.devices.asked
        return None if asked is None else asked.alias(address)

    def start(self) -> None:
        """Answer what machine code asks."""
        for each in (self.devices, self.parts):
            if each is not None:
                each.start()

    def stop(self) -> None:
        """Answer no more."""
        for each in (self.devices, self.parts):
            if each is not None:
                each.stop()

    @staticmethod
    def of(tensor: Any) -> int:
        """How `look` receives a tensor: its address."""
        return int(tensor._cdata)

    @property
    def not_finite(self) -> tuple[int, int]:
        """Number of tensors with NaN or Inf, and of those with NaN."""
        # Each tensor with NaN or Inf uses a slot for the indices.
        return slots_used() - self._first_slot, int(_state[3]) - self._with_nan

    @property
    def unread(self) -> int:
        """Number of tensors that could not be read."""
        return int(_state[1]) - self._unread

    def forget(self) -> None:
        """A hook of the program is called: tensors may change, so none is KNOWN any more."""
        _counted[2] += 1

    def is_filling(self) -> bool:
        """Whether rows should be read before they are overwritten."""
        return self._reader.waiting() > MANY or slots_used() - self._slots > SLOTS // 2

    def read(self) -> RingRead:
        """The rows since the last reading."""
        rows, lost = self._reader.read()
        said = rows[:, PLACE] != VOID
        rows = rows if said.all() else rows[said]
        return RingRead(rows, lost, self._bad(rows))

    def _bad(self, rows: Ints) -> dict[int, tuple[int, ...]]:
        self._slots = slots_used()
        return {
            stamp: bad_places(slot, ROWS + ((stamp - 1) & MASK) * ROW + TO_MEASURED)
            for stamp, slot in rows[rows[:, HEAD + BAD] != 0][:, [STAMP, HEAD + BAD]].tolist()
        }

    def columns(self, rows: Ints) -> StatisticsColumns:
        """The statistics of these rows."""
        return columns(rows)


@cache
def functions() -> Callables:
    """The functions called by Python and by callbacks."""
    ready()
    return Callables(
        {look: FAST, look_at_walked: FAST}, put, put_same, is_good, is_bad, window_of, is_whole
    )
