"""Observes runs of nodes from inside PyTorch, with callbacks in machine code.

# Note [The native observer]
PyTorch calls global callbacks before and after each function of a node (`at::addGlobalCallback`).
Ours are compiled here, and only record node, time and thread: no interpreter lock is acquired, no
object is created, and gradients are moved as usual. The offset of the sequence number in a
`RecordFunction` is not part of an API, so it is determined at the start, in runs of a known graph;
if it is not found three times at the same offset, hooks on nodes are used instead.

# Note [What a run holds]
A callback may return an object (`at::ObserverContext`) that is passed to the callback at the end,
and then released by PyTorch. Ours is the row itself, so that the end is stored in it. Only its
destructor is called: it begins with the address of a table of destructors (as in the Itanium ABI:
one that destroys, and one that also frees), which do nothing.
"""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from gradscope.machine_code.language import Address, Compiled, External, increase, load, store
from gradscope.machine_code.loaded import PROCESS
from gradscope.watch.unseen import UnknownBuildError, library

if TYPE_CHECKING:
    from collections.abc import Callable

FUNCTION, BACKWARD_FUNCTION, SCOPES = 0, 1, 10  # at::RecordScope
VALUE = 16  # bytes of a c10::IValue
LOOKED_AT = 64  # words of a RecordFunction
MOST_LOOKS = 64
CAPACITY = 1 << 20
MONOTONIC = 1
COLUMNS = HELD, BEGIN, REST_OF_BEGIN, END, REST_OF_END, SEQUENCE, THREAD, RUN, TASK = range(9)
"""Times are seconds and the remainder; the end is 0 while it runs. HELD: Note [What a run holds].
THREAD: as `threading.get_ident()`. TASK: PyTorch's number of the graph task. RUN: the number of a
run whose gradients were measured (watch/values); otherwise undefined."""

_names = {
    "add": "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE",
    "remove": "_ZN2at14removeCallbackEm",
    "thread": "_ZN2at14RecordFunction15currentThreadIdEv",
    "task": "_ZN5torch8autograd25get_current_graph_task_idEv",
}


class _Callback(ctypes.Structure):
    """`at::RecordFunctionCallback`, as its header declares it."""

    _fields_ = (
        ("start", ctypes.c_void_p),
        ("end", ctypes.c_void_p),
        ("sampling", ctypes.c_double),
        ("scopes", ctypes.c_bool * SCOPES),
        ("needs_inputs", ctypes.c_bool),
        ("needs_outputs", ctypes.c_bool),
        ("needs_ids", ctypes.c_bool),
    )


class NotObservable(UnknownBuildError):  # noqa: N818 -- why there is no observer
    """This build of PyTorch is not as the observer expects."""


class Library:
    """The functions of libtorch_cpu that are called."""

    def __init__(self) -> None:
        path = library("torch_cpu")
        if path is None:
            raise NotObservable("there is no libtorch_cpu")
        self.handle = ctypes.CDLL(str(path))
        try:
            self.add, self.remove = (getattr(self.handle, _names[n]) for n in ("add", "remove"))
            self.thread = External(self.handle, _names["thread"], 0)
            self.task = External(self.handle, _names["task"], 0, half=True)
        except AttributeError as error:
            raise NotObservable(str(error)) from None
        self.thread_here = getattr(self.handle, _names["thread"])
        self.thread_here.argtypes, self.thread_here.restype = [], ctypes.c_uint64
        self.add.argtypes, self.add.restype = [_Callback], ctypes.c_uint64
        self.remove.argtypes, self.remove.restype = [ctypes.c_uint64], ctypes.c_bool
        if not self.task.address:
            raise NotObservable("it does not report the graph task of a thread")

    def observe(
        self,
        start: int,
        end: int,
        scope: int = BACKWARD_FUNCTION,
        *,
        given: bool = False,
        results: bool = False,
    ) -> int:
        """Add callbacks around each function of a scope. Returns the handle for removing them.

        Arguments and results are available to them only if they are requested.
        """
        callback = _Callback(start, end, 1.0)
        callback.needs_inputs, callback.needs_outputs = given, results
        callback.scopes[scope] = True
        return int(self.add(callback))


class Observer:
    """Rows of runs, in the order of time. Read them by place: `place()` before and after.

    Only one may be started in a process. `around`: other callbacks that do the same and also read
    the arguments of nodes.
    """

    def __init__(self, around: tuple[int, int] | None = None) -> None:
        self._library, *own = _ready()
        self._begins, self._ends = around or own
        self._given = around is not None
        self._handle = 0

    def start(self) -> None:
        """Start recording all functions of nodes."""
        self._handle = self._library.observe(self._begins, self._ends, given=self._given)

    def stop(self) -> None:
        """Stop."""
        if self._handle:
            self._library.remove(self._handle)
            self._handle = 0

    def place(self) -> int:
        """Number of rows so far."""
        return _counted[0]

    def rows(self, since: int, last: int) -> NDArray[np.int64]:
        """Copies of the rows between two places, if they are still stored."""
        return _rows[since:last].copy()

    def again(self) -> None:
        """Start again at the first row: no row is needed any more."""
        _state[0] = 0


# -- the memory and the callbacks -----------------------------------------------------------------

_rows = np.empty((CAPACITY, len(COLUMNS)), np.int64)  # the system allocates only used pages
_state = np.zeros(3, np.int64)  # number of rows; number of looks; offset of the sequence number
_counted = memoryview(_state.data)  # faster to read
_let_go = np.zeros(2, np.int64)  # a function table
LET_GO = Address(_let_go.ctypes.data, "let_go")
_looks = np.zeros((MOST_LOOKS, LOOKED_AT), np.int64)
ROWS, ROW, STATE, LOOKS = (
    Address(_rows.ctypes.data, "runs"),
    _rows.strides[0],
    Address(_state.ctypes.data, "state_of_runs"),
    Address(_looks.ctypes.data, "looks"),
)
COUNTED_LOOKS, OFFSET = STATE + 8, STATE + 16
clock_gettime = External(PROCESS, "clock_gettime", 2, half=True)
pthread_self = External(PROCESS, "pthread_self", 0)
graph_task: Any = None  # torch::autograd::get_current_graph_task_id


def look_at(function: int) -> int:
    """Copy the memory of a RecordFunction, to find offsets."""
    count = increase(COUNTED_LOOKS, 1)
    if count < MOST_LOOKS:
        place = 0
        while place < 8 * LOOKED_AT:
            store(LOOKS + count * 8 * LOOKED_AT + place, load(function + place))
            place += 8
    return count


def _look(result: int, function: int) -> int:
    """Called when a known function begins."""
    store(result, 0)
    look_at(function)
    return result


def _look_at_end(function: int, given: int) -> int:
    """Called when it ended."""
    look_at(function)
    return given


def run_put_down(function: int, row: int) -> int:
    """Write the row of a run that begins."""
    store(row, LET_GO)
    clock_gettime(MONOTONIC, row + 8)
    store(row + 24, 0)
    store(row + 32, 0)
    store(row + 40, load(function + load(OFFSET)))
    store(row + 48, pthread_self())
    store(row + 64, graph_task())
    return row


def _begins(result: int, function: int) -> int:
    """Called when a function begins: write its row if there is room, and pass it to the end."""
    count = increase(STATE, 1)
    store(result, run_put_down(function, ROWS + count * ROW) if count < CAPACITY else 0)
    return result


def run_ends(function: int, row: int) -> int:  # noqa: ARG001 -- what it is called with
    """Called when it ended, normally or with an exception."""
    if row != 0 and load(row + 48) == pthread_self() and load(row + 24) == 0:
        clock_gettime(MONOTONIC, row + 24)
    return row


def let_go(row: int) -> int:
    """Called when PyTorch releases the object of a run or a call."""
    return row


def _no_object(result: int, function: int) -> int:  # noqa: ARG001 -- what it is called with
    store(result, 0)
    return result


def _nothing(function: int, given: int) -> int:  # noqa: ARG001 -- what it is called with
    return given


@cache
def _ready() -> tuple[Library, int, int]:
    """The library and the addresses of the callbacks, after calibration."""
    global graph_task  # noqa: PLW0603 -- compiled code names it
    library = Library()
    graph_task = library.task
    code = Compiled([_look, _look_at_end, _begins, run_ends, let_go, _nothing, _no_object])
    _kept.append(code)
    _let_go[:] = code.address(let_go)
    with ThreadPoolExecutor(1) as apart:  # each thread numbers its nodes separately
        _state[2] = 8 * apart.submit(_sequence_word, library, code).result()
    return library, code.address(_begins), code.address(run_ends)


def ready() -> Library:
    """The functions of libtorch_cpu, after calibration."""
    return _ready()[0]


def sequence_offset() -> int:
    """The offset of the sequence number in a RecordFunction."""
    _ready()
    return int(_state[2])


def looks_at(
    scope: int,
    program: Callable[[], object],
    *,
    given: bool = False,
    results: bool = False,
    at_end: bool = False,
) -> list[list[int]]:
    """The words of each RecordFunction of this scope in a program run on a separate thread.

    `at_end`: as they are when the function has ended; otherwise when it begins.
    """
    library, code = _ready()[0], _kept[-1]
    both = (_no_object, _look_at_end) if at_end else (_look, _nothing)

    def look() -> list[list[int]]:
        _state[1] = 0
        begins, ends = map(code.address, both)
        handle = library.observe(begins, ends, scope, given=given, results=results)
        try:
            program()
        finally:
            library.remove(handle)
        found: list[list[int]] = _looks[: int(_state[1])].tolist()
        return found

    with ThreadPoolExecutor(1) as apart:
        return apart.submit(look).result()


@cache
def results_offset() -> int:
    """The offset in a RecordFunction of the addresses where its results begin and end."""
    first, found = sequence_offset() // 8, set(range(LOOKED_AT - 1))
    x = torch.ones(2, 3)
    programs = (
        lambda: torch.add(x, x), lambda: torch.var_mean(x, 1),
        lambda: torch.native_layer_norm(x, [3], None, None, 1.0),
    )  # fmt: skip
    for many, program in enumerate(programs, 1):
        looks = looks_at(FUNCTION, program, results=True, at_end=True)
        words = looks[-1] if looks else [0] * LOOKED_AT  # of the outermost call
        found &= {
            at
            for at in range(first, LOOKED_AT - 1)
            if words[at] and words[at + 1] - words[at] == many * VALUE
        }
    if len(found) != 1:
        raise NotObservable(f"results are at {len(found)} places")
    return 8 * found.pop()


_kept: list[Compiled] = []  # callbacks may be called until the process ends


# Note [No backward of ours]
# The first backward of a process starts the engine's threads, one for each existing device. A
# program may add a device after `import torch`, so we never start the engine before it does.
# Instead, known nodes are called directly: that calls the same callbacks.


def _sequence_word(library: Library, code: Compiled) -> int:
    """The index of the word with the sequence number, determined in runs of known nodes."""
    found = set(range(LOOKED_AT))
    for _ in range(3):
        with torch.enable_grad():
            made = torch.ones(1, requires_grad=True)
            for _ in range(5):
                made = made.neg()
        nodes, node = [], made.grad_fn
        while node is not None:
            nodes.append(node)
            node = node.next_functions[0][0] if node.next_functions else None
        numbers = [each._sequence_nr() for each in nodes]
        _state[1] = 0
        handle = library.observe(code.address(_look), code.address(_nothing))
        try:
            with torch.no_grad():
                for each in nodes:
                    each(torch.ones(1))
        finally:
            library.remove(handle)
        if _state[1] != len(numbers):
            raise NotObservable(f"{_state[1]} of {len(numbers)} runs were reported")
        for number, words in zip(numbers, _looks, strict=False):
            found &= set(np.flatnonzero(words.view(np.uint64) == number).tolist())
    if len(found) != 1:
        raise NotObservable("sequence numbers are not where they were expected")
    return found.pop()
