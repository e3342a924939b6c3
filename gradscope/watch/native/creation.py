"""Records the creation of nodes natively: their constructor gets a record and fills it.

See Note [Anomaly mode] in watch/creation.py, and Note [Records] in records.py. A virtual function
of the engine creates the anomaly metadata of nodes; while we watch, the engine has a copy of its
function table with our function in that place. Our metadata has its own table: when it is asked to
store a traceback, it records the line and the context of the thread. In a program that uses anomaly
mode, it also calls PyTorch's function.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from itertools import count
from types import FrameType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch.autograd import Variable

from gradscope.machine_code.callables import NONE, ONE, Callables
from gradscope.machine_code.interpreter import (
    MONOTONIC,
    PYTHON,
    as_int,
    clock_gettime,
    from_int,
    keep,
)
from gradscope.machine_code.language import (
    Address,
    Compiled,
    External,
    Function,
    increase,
    load,
    store,
)
from gradscope.watch.in_place.compilers import aside
from gradscope.watch.native import ends
from gradscope.watch.native.ends import GoneNodes
from gradscope.watch.native.frames import frame_layout
from gradscope.watch.native.function_tables import (
    ENDS,
    FREES,
    HEADER,
    MAKES,
    PARENTS,
    STORES,
    tables,
)
from gradscope.watch.native.records import (
    CONTEXT,
    LOW_HALF,
    NUMBER,
    RECORDING,
    SITE,
    TIME,
    TOPOLOGICAL,
    NativeNodeRecords,
    answered,
    destroyed,
    failed,
    raise_again,
    stays,
    taken,
)

Ints = NDArray[np.int64]
UNKNOWN = -3
BILLION = 1_000_000_000

_state: Ints = stays(np.zeros(12, np.int64))
MAKER = Address(_state.ctypes.data, "making_nodes")
(ASKED_FOR, HOLDER, CURRENT, PREVIOUS, CODE, INSTRUCTION, HEAD, SKIPPED) = (
    MAKER + 8 * place for place in range(1, 9)
)

# Offsets of the words of a maker: the table of lines (keys, values, size minus one), the value for
# lines of gradscope, the next number, the function to ask, this recording, and the offset of the
# context in a thread's state. Then, by thread id, pairs of id and state. Python does not reuse
# these ids, so a state that no longer exists is never read.
KEYS, LINES, MASK, OURS, COUNTER, ASK, OF_RECORDING, PLACE, THREADS = range(0, 72, 8)
MOST_THREADS = 1 << 10
LAST_THREAD = MOST_THREADS - 1
ROOM = 1 << 16
"""Size of the table of lines; at most half of it is filled."""

thread_here = External(PYTHON, "PyGILState_GetThisThreadState", 0)
number_of_thread = External(PYTHON, "PyThreadState_GetID", 1)
own_makes: Any = None  # the engine's own function; and those of PyTorch's metadata
own_stores: Any = None
own_parents: Any = None


def line_at(maker: int, key: int) -> int:
    """The line of an instruction."""
    keys, mask = load(maker + KEYS), load(maker + MASK)
    place = (key ^ (key >> 17)) & mask
    there = load(keys + 8 * place)
    while there != key:
        if there == 0:
            return UNKNOWN
        place = (place + 1) & mask
        there = load(keys + 8 * place)
    return load(load(maker + LINES) + 8 * place)


def line_here(maker: int, thread: int) -> int:
    """The line that a thread is running, or that of its nearest caller that is not OURS."""
    frame = load(thread + load(HOLDER))
    if load(CURRENT) >= 0:
        frame = load(frame + load(CURRENT))
    while frame != 0:
        if load(frame + load(CODE)) != load(SKIPPED):
            line = line_at(maker, load(frame + load(INSTRUCTION)) - load(HEAD))
            if line != load(maker + OURS):
                return line
        frame = load(frame + load(PREVIOUS))
    return UNKNOWN


def note(maker: int, record: int) -> int:
    """Fill the record of a node that this thread is creating."""
    thread, context, site = thread_here(), 0, UNKNOWN
    if thread != 0:
        number = number_of_thread(thread)
        known = maker + THREADS + 16 * (number & LAST_THREAD)
        if load(known) == number:
            context = as_int(load(load(known + 8) + load(maker + PLACE)))
        if context != 0:
            site = line_here(maker, thread)
    if site == UNKNOWN:
        both = answered(load(maker + ASK))
        context, site = both >> 32, (both & LOW_HALF) - 1
    clock_gettime(MONOTONIC, record + TIME)
    store(record + TIME, load(record + TIME) * BILLION + load(record + TIME + 8))
    store(record + TOPOLOGICAL, -1)
    store(record + CONTEXT, context)
    store(record + SITE, site)
    store(record + RECORDING, load(maker + OF_RECORDING))
    store(record + NUMBER, increase(load(maker + COUNTER), 2))
    return record


def makes(result: int, engine: int) -> int:
    """Replaces the engine's function: returns a record as the metadata of a node."""
    record = taken()
    if record == 0:
        return own_makes(result, engine)  # type: ignore[no-any-return]
    store(result, record)
    return result


def stores(record: int) -> int:
    """Called when the constructor of a node stores its traceback."""
    maker = load(MAKER)
    if maker != 0:
        note(maker, record)
    if load(ASKED_FOR):
        return own_stores(record)  # type: ignore[no-any-return]
    return record


def parents(record: int, parent: int) -> int:
    """Called when the constructor stores the node in whose run it was created."""
    if load(ASKED_FOR):
        return own_parents(record, parent)  # type: ignore[no-any-return]
    return record


def number(self: int, nothing: int) -> int:  # noqa: ARG001 -- how Python calls it
    """The next number."""
    return from_int(increase(as_int(self), 2))


def numbers(self: int, many: int) -> int:
    """The first of this many numbers."""
    return from_int(increase(as_int(self), 2 * as_int(many)))


def here(self: int, state: int) -> int:
    """Store the state of the calling thread, unless its entry is used by another thread."""
    number = number_of_thread(thread_here())
    known = as_int(self) + THREADS + 16 * (number & LAST_THREAD)
    if load(known) == 0:
        store(known + 8, state)
        store(known, number)
    keep(state)
    return state


class RecordSources(NamedTuple):
    """The data of a listener about threads and lines."""

    context_offset: int  # offset of the context number in a thread's state
    ours: int  # the value for lines that do not belong to the program
    asks: Callable[[FrameType | None], tuple[object, int, int] | None]
    """Returns the state of the calling thread, its context, and the line of this frame; None: a
    fault."""


class CreationNumbers:
    """Numbers in steps of two, which native code also assigns."""

    def __init__(self) -> None:
        self.words = np.zeros(1, np.int64)

    @property
    def next(self) -> Callable[[], int]:
        """Returns the next number."""
        return _ready().functions.over(number, self)  # type: ignore[no-any-return]

    def take(self, many: int) -> Ints:
        """This many numbers at once."""
        first = _ready().functions.over(numbers, self)(many)
        return np.arange(first, first + 2 * many, 2)


class RecordMaker:
    """Fills records of new nodes for one recording."""

    _recordings = count(1)

    def __init__(self, making: RecordSources) -> None:
        ready = _ready()
        self._engine, self._watched = ready.engine, ready.watched
        self.records, self.frees = ready.records, ready.frees
        self._making = making
        self._keys, self._lines = np.zeros(ROOM, np.int64), np.zeros(ROOM, np.int64)
        self._used = 0
        self.nodes, self.others = (
            CreationNumbers(),
            CreationNumbers(),
        )  # for nodes, and for other objects
        self._asks = self._asked  # the words contain its address
        self.recording = next(RecordMaker._recordings)
        self.ends, self._all = GoneNodes(), ready.all
        self.words = np.zeros(THREADS // 8 + 2 * MOST_THREADS, np.int64)
        self.words[: THREADS // 8] = (
            self._keys.ctypes.data, self._lines.ctypes.data, ROOM - 1, making.ours,
            self.nodes.words.ctypes.data, id(self._asks), self.recording, making.context_offset,
        )  # fmt: skip
        self._here = ready.functions.over(here, self)
        self._former, self._failed = 0, failed()

    @property
    def failed(self) -> int:
        """Number of nodes whose line could not be determined."""
        return failed() - self._failed

    def add(self, address: int, line: int) -> None:
        """Store the line of an instruction, by the address of its code plus its offset."""
        if 2 * self._used < ROOM:
            place = (address ^ (address >> 17)) & (ROOM - 1)
            while self._keys[place] not in {0, address}:
                place = (place + 1) & (ROOM - 1)
            self._used += int(self._keys[place] == 0)
            self._lines[place] = line
            self._keys[place] = address

    def start(self) -> None:
        """Start; anomaly mode must be on."""
        Variable._execution_engine.is_checkpoint_valid()  # a forked child creates a new engine here
        _state[0] = self.words.ctypes.data
        self.ends.start(self.recording)
        if self._engine.value != self._watched:
            self._former, self._engine.value = self._engine.value, self._watched

    def stop(self) -> None:
        """Stop."""
        if self._engine.value == self._watched:
            self._engine.value = self._former
        if _state[0] == self.words.ctypes.data:
            _state[0] = 0

    def asked_for(self, asked_for: bool) -> None:  # noqa: FBT001 -- the new value
        """Set whether the program uses anomaly mode."""
        _state[1] = asked_for

    @aside
    def _asked(self) -> int:
        """Returns context and line of a new node; machine code calls this (see records.py)."""
        found = self._making.asks(sys._getframe(1).f_back)  # None: a thread of PyTorch
        if found is None:
            return 0
        state, place, line = found
        self._here(state)
        return place * (1 << 32) + line + 1

    @property
    def lost(self) -> int:
        """Number of released nodes whose release was not read in time."""
        return self.ends.lost

    def read(self) -> Ints:
        """Nodes released since the last time: number, line, context, times, whether it was met."""
        rows = self.ends.read()
        found = rows[
            :, [ends.NUMBER, ends.SITE, ends.CONTEXT, ends.BORN, ends.DIED, ends.TOPOLOGICAL]
        ]
        found[:, -1] = found[:, -1] >= 0
        return found

    def unmet(self) -> Ints:
        """Existing nodes that no traversal has found: number, line, context, creation time."""
        return self._all.alive(self.recording)[
            :, [each // 8 for each in (NUMBER, SITE, CONTEXT, TIME)]
        ]

    def finish(self) -> None:
        """Release the callables, which refer to this; later releases of nodes are not recorded."""
        self.ends.stop()
        del self._here, self._asks


class _Ready(NamedTuple):
    functions: Callables  # called by Python
    engine: ctypes.c_int64  # the word that refers to its function table
    watched: int  # its table while we watch
    records: int  # the function table of records
    all: NativeNodeRecords
    frees: int  # the destructor of other metadata


@cache
def _ready() -> _Ready:
    """Prepare the creation of records; their functions stay until the process ends."""
    global own_makes, own_stores, own_parents  # noqa: PLW0603 -- compiled code names them
    found, frames = tables(), frame_layout()
    _state[2:9] = (
        frames.holder, frames.current, frames.previous, frames.code, frames.instruction,
        frames.head, frames.skipped,
    )  # fmt: skip
    own_makes = own_function("own_makes", found.engine[HEADER + MAKES], 2, last=True)
    own_stores = own_function("own_stores", found.metadata[HEADER + STORES], 1, last=True)
    own_parents = own_function("own_parents", found.metadata[HEADER + PARENTS], 2, last=True)
    code: Compiled = stays(Compiled([makes, stores, parents, destroyed, raise_again]))
    ours: dict[int, Function] = {
        ENDS: destroyed,
        FREES: destroyed,
        STORES: stores,
        PARENTS: parents,
    }
    of_records, of_engine = list(found.metadata), list(found.engine)
    for place, function in ours.items():
        of_records[HEADER + place] = code.address(function)
    of_engine[HEADER + MAKES] = code.address(makes)
    both: Ints = stays(np.array([*of_records, *of_engine], np.int64))
    table = both.ctypes.data + 8 * HEADER
    records = stays(NativeNodeRecords(table, code.address(raise_again), found.known))
    return _Ready(
        Callables({here: ONE, number: NONE, numbers: ONE}), found.place,
        table + 8 * len(of_records), table, records, found.metadata[HEADER + FREES],
    )  # fmt: skip


def own_function(name: str, address: int, arguments: int, *, last: bool = False) -> External:
    """A function of PyTorch."""
    return External(SimpleNamespace(**{name: address}), name, arguments, last=last)
