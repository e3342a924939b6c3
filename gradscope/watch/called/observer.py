"""Observes ATen calls from inside PyTorch: callbacks in machine code record name and time.

# Note [Which calls]
A call that may create a node knows the number that the node would have; one that may not (grad mode
is off, or it runs inside such a call) has no number, and is not recorded. In a backward, the few
calls are also recorded that show how gradients were added and accumulated (`GRADIENTS`). A record
contains thread, time, and the address of the call's schema; names are read later.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from gradscope.machine_code.language import Address, Compiled, increase, load, store
from gradscope.machine_code.ring import Reader
from gradscope.watch.called import call_places, made, writes
from gradscope.watch.called.call_places import place_here
from gradscope.watch.called.call_rows import (
    END,
    EVALUATE,
    GRADIENTS,
    NO_LINE,
    NO_TEXT,
    STAMP,
    TEXT,
    WORD,
    CalledRead,
    Ints,
)
from gradscope.watch.called.in_memory import name_at
from gradscope.watch.called.made import (
    IS_ON as WATCHES_RESULTS,
    MadeByCall,
    result_begins,
    result_ends,
)
from gradscope.watch.called.made_calls import MadeCalls, made_since
from gradscope.watch.called.writes import (
    ALLOWED,
    IS_ON as WATCHES_WRITES,
    NOBODY,
    WatchedWrites,
    is_writing,
    write_begins,
    write_ends,
)
from gradscope.watch.native.layout import NotFound
from gradscope.watch.native.versions import STRING
from gradscope.watch.observer import (
    FUNCTION,
    LET_GO,
    MONOTONIC,
    SCOPES,
    Library,
    NotObservable,
    clock_gettime,
    looks_at,
    pthread_self,
    ready,
    results_offset,
    sequence_offset,
)
from gradscope.watch.unseen import in_words
from gradscope.watch.values.layout import NotReadable

if TYPE_CHECKING:
    from collections.abc import Callable

CAPACITY = 1 << 17
THREADS = writes.THREADS
BILLION = 1_000_000_000

_rows = np.zeros((CAPACITY, 8), np.int64)
_state = np.zeros(11 + 3 * THREADS, np.int64)
_lines = np.zeros(CAPACITY, np.int64)  # places of the rows, at level `full` (call_places.py)
ROWS, MASK = Address(_rows.ctypes.data, "calls"), CAPACITY - 1
COUNT = Address(_state.ctypes.data, "state_of_calls")
NESTED, LINE = (COUNT + 8 * (11 + n * THREADS) for n in (1, 2))
LINES = Address(_lines.ctypes.data, "lines_of_calls")
OFFSET, SCHEMA, VARIANT, ALL, A, B, C, D, E, F, INSIDE = (COUNT + 8 * n for n in range(1, 12))
NO_SCHEMA, LAST_THREAD = 0, THREADS - 1
thread: Any = None  # at::RecordFunction::currentThreadId


def put_down(function: int, word: int) -> int:
    """Write the row of a call that begins. Its stamp comes last and shows that it is complete."""
    count = increase(COUNT, 1)
    row = ROWS + (count & MASK) * 64
    store(row, LET_GO)
    store(row + 8, 0)
    clock_gettime(MONOTONIC, row + 24)
    store(row + 16, load(row + 24) * BILLION + load(row + 32))
    store(row + 24, 0)
    store(row + 32, 0)
    store(row + 40, word)
    store(row + 48, load(function + load(OFFSET)))
    store(row + 56, pthread_self())
    if load(ALL):
        store(LINES + (count & MASK) * 8, line_here())
    store(row + 8, count + 1)
    return row


def line_here() -> int:
    """The calling place; inside a call, the place of the outermost call.

    Calls by a backward itself have no line.
    """
    here = 8 * (thread() & LAST_THREAD)
    if increase(NESTED + here, 1) == 0:
        by_the_program = (
            load(INSIDE + here) == load(ALLOWED + here) or load(ALLOWED + here) == NOBODY
        )
        store(LINE + here, place_here() if by_the_program else NO_LINE)
    return load(LINE + here)


def text_of(function: int) -> int:
    """The beginning of the text of a call without a schema; 0 for a call that has one."""
    if load(function + load(VARIANT)) & 255 != NO_SCHEMA:
        return 0
    return load(load(function + load(SCHEMA))) & NO_TEXT ^ TEXT


def is_gradient(word: int) -> int:
    """Whether this is one of the GRADIENTS."""
    dense = word == load(A) or word == load(B) or word == load(C) or word == load(D)
    return dense or word == load(E) or word == load(F)


def call_begins(function: int) -> int:
    """Called when a call begins. Returns its row, or 0."""
    word, here = text_of(function), 8 * (thread() & LAST_THREAD)
    if word == EVALUATE:
        increase(INSIDE + here, 1)
        return put_down(function, word)
    may_make_a_node = load(function + load(OFFSET)) >= 0 or load(ALL)
    if word == 0:
        word, inside = load(function + load(SCHEMA)), load(INSIDE + here)
        if inside == load(ALLOWED + here):  # writes by an engine or optimizer are not recorded
            if load(WATCHES_WRITES) and is_writing(word):
                write_begins(function, inside)
            if load(WATCHES_RESULTS):
                result_begins(function, inside)
        if may_make_a_node == 0 and (inside <= 0 or is_gradient(word) == 0):
            return 0
    elif may_make_a_node == 0:
        return 0
    return put_down(function, word)


def call_ends(function: int, row: int) -> int:
    """The call ended, normally or with an exception. Its row may have been overwritten."""
    here = 8 * (thread() & LAST_THREAD)
    inside = load(INSIDE + here)
    if load(function + load(VARIANT)) & 255 != NO_SCHEMA and inside == load(ALLOWED + here):
        word = load(function + load(SCHEMA))
        if load(WATCHES_WRITES) and is_writing(word):
            write_ends(function, word)
        if load(WATCHES_RESULTS):
            result_ends(function, word, inside)
    if row != 0:
        if load(row + 56) == pthread_self() and load(row + 24) == 0:
            clock_gettime(MONOTONIC, row + 24)
        if text_of(function) == EVALUATE and inside > 0:
            increase(INSIDE + here, -1)
        if load(NESTED + here) > 0:
            increase(NESTED + here, -1)
    return row


def _call_begins(result: int, function: int) -> int:
    """Store the row, so that it is passed to the end of the call."""
    store(result, call_begins(function))
    return result


class CallObserver:
    """Records calls from `start` to `stop`; `read` returns new ones. One per process.

    `around`: other callbacks, which do the same and also read arguments and results of calls.
    """

    def __init__(self, *, all_calls: bool = False, around: tuple[int, int] | None = None) -> None:
        self._library, code = _ready()
        self._all = all_calls
        self._around = around or (code.address(_call_begins), code.address(call_ends))
        self._looks = around is not None
        self.gradients = dict(zip(_state[5:11].tolist(), range(len(GRADIENTS)), strict=True))
        """The index in GRADIENTS of the schema at an address."""
        self._handle = 0
        self._reader = Reader(_rows, _state, STAMP)
        self.waiting = self._reader.waiting
        """The number of unread rows; the last CAPACITY rows are stored."""
        self.why_no_writes = _why_no_writes[0]
        self.writes: WatchedWrites | None = None
        self.made: MadeByCall | None = None
        if not self.why_no_writes:
            self.made = MadeByCall()
            self.writes = WatchedWrites(self._library, _state[11 : 11 + THREADS])

    def start(self) -> None:
        """Start recording calls."""
        if not self._handle:
            _state[4] = self._all
            _state[11:] = 0
            call_places.begin(whole=self._all)
            if self.writes is not None and self.made is not None:
                self.writes.start()
                self.made.start()
            looks = self._looks
            self._handle = self._library.observe(
                *self._around, FUNCTION, given=looks, results=looks
            )

    def stop(self) -> None:
        """Stop."""
        if self._handle:
            self._library.remove(self._handle)
            self._handle = 0
        if self.writes is not None and self.made is not None:
            self.writes.stop()
            self.made.stop()

    def read(self) -> CalledRead:
        """The calls that have begun since the last reading."""
        return CalledRead(*self._reader.read())

    def count(self) -> int:
        """The number of calls so far, for `made_since`."""
        return int(_state[0])

    def made_since(self, count: int) -> MadeCalls | None:
        """The calls of this thread since then that created nodes; None: some are lost."""
        return made_since(self._reader, count)

    def lines(self, rows: Ints) -> Ints:
        """The places of these calls, which were just read (call_places.py); needs `all_calls`."""
        found: Ints = _lines[(rows[:, STAMP] - 1) & MASK]
        return found

    def ended(self, stamps: Ints) -> tuple[Ints, Any]:
        """The current rows of calls that were running, and whether each is still stored."""
        now = self._reader.again(stamps)
        kept = now[:, STAMP] == stamps
        return now[kept], kept


@cache
def _ready() -> tuple[Library, Compiled]:
    """The library and the callbacks, calibrated."""
    global thread  # noqa: PLW0603 -- compiled code names it
    if not sys.platform.startswith("linux"):
        raise NotObservable("names of calls can be read on Linux only")
    library = ready()
    thread = library.thread
    offset = sequence_offset()
    _state[1:4] = offset, offset - 8 - STRING, offset - 8
    _calibrate()
    _why_no_writes[0] = _calibrate_writes(library)
    code = Compiled([_call_begins, call_ends])
    _kept.append(code)
    _check(library, code)
    if not _why_no_writes[0]:
        _why_no_writes[0] = writes.why_not(lambda program: _around_calls(library, code, program))
    return library, code


_kept: list[Compiled] = []  # callbacks may be called until the process ends


def _calibrate() -> None:
    """Check with known calls that names are found at the expected offset."""

    def program() -> None:
        with torch.enable_grad():
            x = torch.ones(1, requires_grad=True)
            y = torch.add(x, x).detach().clone().new_empty_strided((1,), (1,))
            y.fill_(0).add_(x)
            torch.ops.aten._sparse_coo_tensor_unsafe(torch.zeros(1, 1, dtype=torch.int64), y, [1])

    try:
        found = _known(looks_at(FUNCTION, program))
    except (OSError, ValueError) as error:
        raise NotObservable(f"names of calls are not where they were expected: {error}") from None
    wanted = [(f"aten::{name}", "Tensor" if name[:3] == "add" else "") for name in GRADIENTS]
    if not all(name in found for name in wanted):
        raise NotObservable("names of calls are not where they were expected")
    _state[5:11] = [found[name] for name in wanted]


_why_no_writes = ["it was not tried"]


def _calibrate_writes(library: Library) -> str:
    """Why in-place writes without a node cannot be observed; "": they can."""
    writes.thread = made.thread = library.thread
    made.peek = writes.ask_for_numbers()
    try:
        writes.configure(results_offset(), *_state[2:4].tolist())
    except (NotObservable, NotFound, NotReadable, OSError) as error:
        return in_words(error)
    return ""


def _known(looks: list[list[int]]) -> dict[tuple[str, str], int]:
    """The schemas of known calls by name; all others must be texts."""
    schema, variant = (int(_state[place]) // 8 for place in (2, 3))
    schemas = [words[schema] for words in looks if words[variant] & 255 != NO_SCHEMA]
    return {name_at(each): each for each in schemas}


def _check(library: Library, code: Compiled) -> None:
    """Check that functions of the engine itself are also recognized."""

    def program() -> None:
        for _ in range(2):
            attended(int)

    before = int(_state[0])
    _around_calls(library, code, program)
    rows = _rows[np.arange(before, int(_state[0])) & MASK]
    told = rows[(rows[:, WORD] == EVALUATE)]
    if len(told) != 2 or not (told[:, END] > 0).all():
        raise NotObservable("the engine's functions do not say their names where expected")


def attended(work: Callable[[], object]) -> None:
    """Run a function as if the engine processed a node: inside a call with such a name.

    See Note [No backward of ours] in watch/observer.py.
    """

    def forward(_: Any, x: Any) -> Any:
        work()
        return x

    name = "autograd::engine::evaluate_function"
    function: Any = type(name, (torch.autograd.Function,), {"forward": staticmethod(forward)})
    function.apply(None)


def _around_calls(library: Library, code: Compiled, program: Callable[[], None]) -> None:
    """Run a program on a separate thread while its calls are observed."""

    def observed() -> None:
        handle = library.observe(code.address(_call_begins), code.address(call_ends), FUNCTION)
        try:
            program()
        finally:
            library.remove(handle)

    looks_at(SCOPES - 1, observed)
