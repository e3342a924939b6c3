"""Observes in-place writes from inside PyTorch: the tensor, its version, and the line.

# Note [What a write returns]
A call whose name ends in `_`, or that has `out=`, returns the tensor that it wrote to. Callbacks
get no results unless one of them requests all of them, which would slow down every call. So for
such a call, our callback requests them where PyTorch stores this for a single call: in a byte of
its `RecordFunction`, whose offset is determined at the start. Of nested writing calls, the
outermost is recorded; calls that write to several tensors (`_foreach_add_`) call others that write
to one. Writes without a new version are excluded: calls write so to tensors they will return.

Steps of optimizers, which are recorded as a whole, and internal calls of backwards are excluded:
only hooks can write there. See call_places.py for the lines.
"""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from gradscope.machine_code.language import Address, External, increase, load, store
from gradscope.machine_code.ring import Reader
from gradscope.watch.called import call_places
from gradscope.watch.called.call_places import place_here
from gradscope.watch.called.call_rows import Ints
from gradscope.watch.called.in_memory import name_at
from gradscope.watch.called.write_rows import (
    CAPACITY,
    COLUMNS,
    DATA,
    LINE,
    STAMP,
    VERSION,
    WORD,
)
from gradscope.watch.native.saved_layout import saved_layout
from gradscope.watch.native.versions import BEFORE, STRING
from gradscope.watch.observer import (
    FUNCTION,
    MONOTONIC,
    Library,
    NotObservable,
    clock_gettime,
    looks_at,
    pthread_self,
    sequence_offset,
)

if TYPE_CHECKING:
    from collections.abc import Callable

THREADS = 1 << 10
_rows = np.zeros((CAPACITY, len(COLUMNS)), np.int64)
_state = np.zeros(20 + 5 * THREADS, np.int64)
ROWS, MASK, ROW = Address(_rows.ctypes.data, "writes"), CAPACITY - 1, 8 * len(COLUMNS)
COUNT = Address(_state.ctypes.data, "state_of_writes")
(IS_ON, WANTED, WANTED_BIT, RESULTS, AT_SEQUENCE, SCHEMA, VARIANT, AT_STORAGE, AT_DATA, AT_COUNTER,
 AT_VERSION, PART_OF_VERSION) = (
    COUNT + 8 * n for n in range(1, 13)
)  # fmt: skip
WRITING, BEGUN, ALLOWED, SCRATCH = (COUNT + 8 * (20 + n * THREADS) for n in range(4))
LAST_THREAD, LOW_HALF, A_TENSOR, BILLION = THREADS - 1, 0xFFFFFFFF, 1, 1_000_000_000
UNDERSCORE, OUT = ord("_"), int.from_bytes(b"out", "little")
FOREACH, BEHIND_PREFIX = int.from_bytes(b"_foreach", "little"), len("aten::")
NOBODY = 1 << 40
PEEK = "_ZN2at15sequence_number4peekEv"
thread: Any = None  # at::RecordFunction::currentThreadId


def not_known() -> int:
    """Used for the number of the next node where PyTorch cannot return it."""
    return -1


peek: Any = not_known  # at::sequence_number::peek


def length_of(text: int) -> int:
    """The number of characters of a `std::string`."""
    return load(load(text) - BEFORE) if BEFORE else load(text + 8)


def is_writing(schema: int) -> int:
    """Whether a schema's name ends in `_`, or its overload in `out`; not for `_foreach_`."""
    text, many = load(schema), length_of(schema)
    if (load(text + many - 8) >> 56) & 255 == UNDERSCORE:
        return load(text + BEHIND_PREFIX) != FOREACH
    text, many = load(schema + STRING), length_of(schema + STRING)
    return many >= 3 and (load(text + many - 8) >> 40) & 0xFFFFFF == OUT


def write_begins(function: int, inside: int) -> int:
    """Called when a writing call begins, inside this number of runs of the engine."""
    here = 8 * (thread() & LAST_THREAD)
    if increase(WRITING + here, 1) == 0:
        store(BEGUN + here, now(here) if inside == load(ALLOWED + here) else 0)
    if load(BEGUN + here) != 0:
        wanted = function + load(WANTED)
        if load(wanted) & load(WANTED_BIT) == 0:
            store(wanted, load(wanted) ^ load(WANTED_BIT))
    return 0


def write_ends(function: int, schema: int) -> int:
    """Called when it ended, normally or with an exception; then it has no result."""
    here = 8 * (thread() & LAST_THREAD)
    if load(WRITING + here) > 0:
        increase(WRITING + here, -1)
    value = load(function + load(RESULTS))
    if load(WRITING + here) > 0 or load(BEGUN + here) == 0:
        return 0
    if value == load(function + load(RESULTS) + 8) or load(value + 8) & LOW_HALF != A_TENSOR:
        return 0
    tensor = load(value)
    return 0 if tensor == 0 else put_write(function, schema, tensor, here)


def put_write(function: int, schema: int, tensor: int, here: int) -> int:
    """Write the row of a write. Its stamp is written last, so that readers see complete rows."""
    storage, counter = load(tensor + load(AT_STORAGE)), load(tensor + load(AT_COUNTER))
    data = 0
    if counter == 0:
        return 0
    version = (load(counter + load(AT_VERSION)) >> load(PART_OF_VERSION)) & LOW_HALF
    if version == 0:
        return 0
    if storage != 0:
        data = load(storage + load(AT_DATA))
    line = place_here()
    sequence = load(function + load(AT_SEQUENCE))
    count = increase(COUNT, 1)
    row = ROWS + (count & MASK) * ROW
    store(row, 0)
    store(row + 8, load(BEGUN + here))
    store(row + 16, now(here))
    store(row + 24, schema)
    store(row + 32, sequence)
    store(row + 40, pthread_self())
    store(row + 48, storage)
    store(row + 56, data)
    store(row + 64, counter)
    store(row + 72, version)
    store(row + 80, line)
    store(row + 88, 1 if sequence >= 0 and peek() > sequence else 0)
    store(row, count + 1)
    return row


def now(here: int) -> int:
    """The current time; each thread has a separate buffer for it."""
    clock_gettime(MONOTONIC, SCRATCH + 2 * here)
    return load(SCRATCH + 2 * here) * BILLION + load(SCRATCH + 2 * here + 8)


class TensorMemory(NamedTuple):
    """Addresses of a tensor's version counter, storage and memory; 0: it has none."""

    counter: int
    storage: int
    data: int


class WatchedWrites:
    """Reads rows of in-place writes; one per recording."""

    def __init__(self, library: Library, inside: Ints) -> None:
        self._thread_here = library.thread_here
        self._inside = inside  # number of runs of the engine that each thread is in
        self._reader = Reader(_rows, _state, STAMP)
        self.lost = 0  # number of lost rows
        self._local = threading.local()
        self._hooks: dict[int, list[int]] = {}  # by thread: the previously allowed levels

    def start(self) -> None:
        """Start recording; calls that are running already are not recorded."""
        _state[20:] = 0
        _state[1] = 1

    def stop(self) -> None:
        """Stop recording."""
        _state[1] = 0

    def waiting(self) -> int:
        """The number of unread rows; the last CAPACITY rows are stored."""
        return self._reader.waiting()

    def read(self) -> Ints:
        """The writes since the last reading."""
        rows, lost = self._reader.read()
        self.lost += lost
        return rows

    def places(self) -> list[call_places.CallPlace]:
        """The places that are new since the last call."""
        return call_places.taken()

    def is_users(self, code: Any, offset: int) -> None:
        """Mark this instruction as one of the program: its callers are then not recorded."""
        call_places.is_users(code, offset)

    def memory_of(self, tensor: Any) -> TensorMemory:
        """The addresses of a tensor's memory."""
        at = tensor._cdata
        counter, storage = (_word(at + int(_state[place])) for place in (10, 8))
        return TensorMemory(counter, storage, _word(storage + int(_state[9])) if storage else 0)

    def leave_out(self, *, over: bool = False) -> None:
        """Ignore writes of an optimizer's step on this thread, which is recorded as a whole."""
        local = self._local
        try:
            here = local.here
        except AttributeError:
            here = self._here()
        allowed = _allowed[here]
        if allowed != NOBODY and not over:
            local.before, _allowed[here] = allowed, NOBODY
        elif allowed == NOBODY and over:
            _allowed[here] = local.before

    def hook_begins(self) -> None:
        """Called before a hook of the program, which may write, inside or outside of a backward."""
        here = self._here()
        self._hooks.setdefault(here, []).append(_allowed[here])
        _allowed[here] = self._inside[here]

    def hook_ends(self) -> None:
        """Called after the hook."""
        here = self._here()
        before = self._hooks.get(here)
        if before:
            _allowed[here] = before.pop()

    def _here(self) -> int:
        """The index of the calling thread."""
        here: int | None = getattr(self._local, "here", None)
        if here is None:
            here = self._local.here = int(self._thread_here()) & LAST_THREAD
        return here


def _word(address: int) -> int:
    return int(ctypes.c_int64.from_address(address).value)


_allowed = memoryview(_state.data)[20 + 2 * THREADS : 20 + 3 * THREADS]  # faster to read


def ask_for_numbers() -> Any:
    """Returns the C function for the number of the next node, for compiled code."""
    global peek  # noqa: PLW0603 -- compiled code names it
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    peek = External(library, PEEK, 0) if hasattr(library, PEEK) else not_known
    return peek


def configure(results: int, schema: int, variant: int) -> None:
    """Determine offsets. `results`: the offset of the results in a RecordFunction."""
    found = saved_layout()
    word, bit = _wanted()
    plain = found.plain
    _state[2:13] = (
        word, bit, results, sequence_offset(), schema, variant, 8 * plain.storage, 8 * plain.data,
        found.counter, found.version.word, found.version.shift,
    )  # fmt: skip


def _wanted() -> tuple[int, int]:
    """The byte and bit of a RecordFunction that request results."""

    def program() -> None:
        torch.ones(2).add_(1)

    seen = [
        np.array(looks_at(FUNCTION, program, given=given, results=results), np.int64)
        for results in (False, True)
        for given in (False, True)
    ]
    many = min(map(len, seen))
    bytes_ = np.stack([each[:many].view(np.uint8) for each in seen])
    wanted = np.array([0, 0, 1, 1], np.uint8).reshape(4, 1, 1)
    places_ = np.flatnonzero((bytes_ == wanted).all((0, 1)))
    if not many or len(places_) != 1:
        raise NotObservable(f"what is wanted of a call is said at {len(places_)} places")
    word, byte = divmod(int(places_[0]), 8)
    return 8 * word, 1 << 8 * byte


def why_not(observed: Callable[[Callable[[], None]], None]) -> str:
    """Why writes in a known program are not observed correctly; "": they are."""
    tensor, other = torch.zeros(3), torch.zeros(4)[1:]
    data = [each.untyped_storage().data_ptr() for each in (tensor, other, tensor)]

    def program() -> None:
        with torch.no_grad():
            tensor.add_(1)
            torch.mul(tensor, tensor, out=other)
            tensor.add(1)
            tensor[1:].zero_()
            torch._foreach_mul_([other], 2)

    reader = Reader(_rows, _state, STAMP)
    call_places.begin(whole=False)
    _state[20:] = 0
    _state[1] = 1
    try:
        observed(program)
    finally:
        _state[1] = 0
    rows, _ = reader.read()
    found = call_places.taken()
    try:
        said = [name_at(schema)[0] for schema in rows[:, WORD].tolist()]
    except (OSError, ValueError) as error:
        return f"names of calls that write are not where they were expected: {error}"
    here = {place.number for place in found if place.frames[0][0] is program.__code__}
    if (
        said != ["aten::add_", "aten::mul", "aten::zero_", "aten::mul_"]
        or rows[:, DATA].tolist() != [*data, data[1]]
        or rows[:, VERSION].tolist() != [1, 1, 2, 2]
        or not set(rows[:, LINE].tolist()) <= here
    ):
        return f"writes of a known program are seen otherwise: {said} {rows[:, VERSION].tolist()}"
    return ""
