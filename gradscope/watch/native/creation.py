"""When nodes are made, natively: their constructor gets a record, and has it filled.

See Note [Anomaly mode] in watch/creation.py, and Note [Records] in records.py. A function of the
engine's makes what nodes keep; while we watch, the engine has a copy of its table of functions,
with ours in that place. What is made has a table of ours, too: when it is told to store a traceback
it notes the line and the place of the thread. A program that has asked for anomaly mode gets what
PyTorch itself does then.
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

# The places of a maker's words: the table of lines (keys, values, how many less one), the value of
# a line that is ours, the next number, whom to ask, this recording, and where in a thread's state
# its place is. Then, by numbers of threads, these numbers and states. Numbers of threads never come
# again, so that a state that is gone is never looked at.
KEYS, LINES, MASK, OURS, COUNTER, ASK, OF_RECORDING, PLACE, THREADS = range(0, 72, 8)
MOST_THREADS = 1 << 10
LAST_THREAD = MOST_THREADS - 1
ROOM = 1 << 16
"""Of half as many lines it is remembered where they are."""

thread_here = External(PYTHON, "PyGILState_GetThisThreadState", 0)
number_of_thread = External(PYTHON, "PyThreadState_GetID", 1)
own_makes: Any = None  # the engine's own; and what PyTorch itself has for what nodes keep
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
    """The line of what a thread runs, or of its nearest caller that is not OURS."""
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
    """A node is made here, by this thread."""
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
    """Something for a node to keep."""
    record = taken()
    if record == 0:
        return own_makes(result, engine)  # type: ignore[no-any-return]
    store(result, record)
    return result


def stores(record: int) -> int:
    """The constructor of a node asks for its traceback."""
    maker = load(MAKER)
    if maker != 0:
        note(maker, record)
    if load(ASKED_FOR):
        return own_stores(record)  # type: ignore[no-any-return]
    return record


def parents(record: int, parent: int) -> int:
    """It says in whose run it was made."""
    if load(ASKED_FOR):
        return own_parents(record, parent)  # type: ignore[no-any-return]
    return record


def number(self: int, nothing: int) -> int:  # noqa: ARG001 -- how Python calls it
    """The next number."""
    return from_int(increase(as_int(self), 2))


def numbers(self: int, many: int) -> int:
    """The first of so many."""
    return from_int(increase(as_int(self), 2 * as_int(many)))


def here(self: int, state: int) -> int:
    """The calling thread's state is this, if nobody else's is in its place."""
    number = number_of_thread(thread_here())
    known = as_int(self) + THREADS + 16 * (number & LAST_THREAD)
    if load(known) == 0:
        store(known + 8, state)
        store(known, number)
    keep(state)
    return state


class RecordSources(NamedTuple):
    """What a listener knows of threads and lines."""

    context_offset: int  # how far into a thread's state the number of its context is
    ours: int  # the line of what is none of the program's
    asks: Callable[[FrameType | None], tuple[object, int, int] | None]
    """The calling thread's state; its place, and the line of this frame. None: a fault of ours."""


class CreationNumbers:
    """Numbers in steps of two, which native code takes, too."""

    def __init__(self) -> None:
        self.words = np.zeros(1, np.int64)

    @property
    def next(self) -> Callable[[], int]:
        """The next one."""
        return _ready().functions.over(number, self)  # type: ignore[no-any-return]

    def take(self, many: int) -> Ints:
        """So many at once."""
        first = _ready().functions.over(numbers, self)(many)
        return np.arange(first, first + 2 * many, 2)


class RecordMaker:
    """Fills records of nodes that are made, for one recording."""

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
        )  # of nodes, and of what is none
        self._asks = self._asked  # the words have its address
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
        """How many times nobody could say where a node was made."""
        return failed() - self._failed

    def add(self, address: int, line: int) -> None:
        """Remember the line of an instruction: its code's address, and its offset."""
        if 2 * self._used < ROOM:
            place = (address ^ (address >> 17)) & (ROOM - 1)
            while self._keys[place] not in {0, address}:
                place = (place + 1) & (ROOM - 1)
            self._used += int(self._keys[place] == 0)
            self._lines[place] = line
            self._keys[place] = address

    def start(self) -> None:
        """From here on; anomaly mode has to be on."""
        Variable._execution_engine.is_checkpoint_valid()  # in a forked child this makes it anew
        _state[0] = self.words.ctypes.data
        self.ends.start(self.recording)
        if self._engine.value != self._watched:
            self._former, self._engine.value = self._engine.value, self._watched

    def stop(self) -> None:
        """No longer."""
        if self._engine.value == self._watched:
            self._engine.value = self._former
        if _state[0] == self.words.ctypes.data:
            _state[0] = 0

    def asked_for(self, asked_for: bool) -> None:  # noqa: FBT001 -- what it is told
        """Whether the program wants tracebacks."""
        _state[1] = asked_for

    @aside
    def _asked(self) -> int:
        """Where a node is made; machine code calls this (see `answered` in records.py)."""
        found = self._making.asks(sys._getframe(1).f_back)  # None: a thread of PyTorch's own
        if found is None:
            return 0
        state, place, line = found
        self._here(state)
        return place * (1 << 32) + line + 1

    def unmet(self) -> Ints:
        """The records of nodes that are there, and that no walk has met."""
        return self._all.alive(self.recording)

    def finish(self) -> None:
        """Let go of the callables, which hold this; nodes that go from here on are not told."""
        self.ends.stop()
        del self._here, self._asks


class _Ready(NamedTuple):
    functions: Callables  # that Python calls
    engine: ctypes.c_int64  # the word that names its table
    watched: int  # that table while we watch
    records: int  # the table of records
    all: NativeNodeRecords
    frees: int  # what else nodes may have kept


@cache
def _ready() -> _Ready:
    """Records can be made: their functions stay as long as the process."""
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
    records = stays(NativeNodeRecords(table, code.address(raise_again)))
    return _Ready(
        Callables({here: ONE, number: NONE, numbers: ONE}), found.place,
        table + 8 * len(of_records), table, records, found.metadata[HEADER + FREES],
    )  # fmt: skip


def own_function(name: str, address: int, arguments: int, *, last: bool = False) -> External:
    """One of PyTorch's own."""
    return External(SimpleNamespace(**{name: address}), name, arguments, last=last)
