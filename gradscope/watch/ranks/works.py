"""Observes each collective that PyTorch starts, also from C++, with callbacks in machine code.

# Note [Works]
A process group makes a *work* for each collective, and reports it with the name of its backend
("gloo:all_reduce") and the tensors that this rank passes, as PyTorch's profiler shows it. The work
ends when the collective is complete, often on a thread of the backend. So this also sees what
DistributedDataParallel calls in C++, and when an asynchronous collective was complete. At level
`values` the first tensor is measured when the work begins; and again when it ends, for collectives
that write their result into it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from gradscope.machine_code.language import Address, Compiled, increase, load, store
from gradscope.machine_code.ring import Reader
from gradscope.machine_code.statistics import KINDS
from gradscope.watch.native.versions import STRING
from gradscope.watch.observer import (
    LET_GO,
    MONOTONIC,
    SCOPES,
    Library,
    NotObservable,
    clock_gettime,
    looks_at,
    ready,
    sequence_offset,
)
from gradscope.watch.ranks.bits import hash_of, memory_of
from gradscope.watch.values.callbacks import inputs_offset
from gradscope.watch.values.layout import INLINE
from gradscope.watch.values.lists import A_TENSOR
from gradscope.watch.values.measure import (
    DIMS,
    DTYPE,
    KIND,
    PLACES,
    SHIFT,
    measure,
    ready as ready_to_measure,
)
from gradscope.watch.values.ring_rows import MEASURED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradscope.machine_code.ring import Ints

USER_SCOPE = 7  # at::RecordScope
TEXTS, SIZES = 3, 8
"""Number of words of the name that are stored, and of sizes."""

(HELD, STAMP, BEGIN, END, NANOSECONDS, TEXT, TENSOR, DTYPES, MANY, FIRST_SIZE, DATA, BYTES, AGAIN,
 BEFORE) = (0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 19, 20, 21, 22)  # fmt: skip
AFTER = BEFORE + MEASURED + 1
WIDTH = AFTER + MEASURED + 1
"""Columns. AGAIN: whether the tensor is measured at the end, too. BEFORE, AFTER: statistics, and
then the hash."""

CAPACITY = 1 << 12
BILLION, COLON = 1_000_000_000, ord(":")
LOW_HALF, MOST_SIZES, INLINED = 0xFFFFFFFF, SIZES, INLINE

_rows = np.zeros((CAPACITY, WIDTH), np.int64)
_state = np.zeros(8, np.int64)
ROWS, ROW, MASK = Address(_rows.ctypes.data, "works"), 8 * WIDTH, CAPACITY - 1
COUNT = Address(_state.ctypes.data, "state_of_works")
TEXT_AT, VARIANT, INPUTS, MEASURES, LOST = (COUNT + 8 * n for n in range(1, 6))
BEFORE_AT, AFTER_AT, HASH_AT = 8 * BEFORE, 8 * AFTER, 8 * MEASURED
DATA_AT, BYTES_AT, SIZES_AT, AGAIN_AT = 8 * DATA, 8 * BYTES, 8 * FIRST_SIZE, 8 * AGAIN
TEXT_OF, TENSOR_AT, DTYPE_AT, MANY_AT = 8 * TEXT, 8 * TENSOR, 8 * DTYPES, 8 * MANY


def _word(text: str) -> int:
    return int.from_bytes(text.encode(), "little")


GLOO_ALL, REDUCE, GLOO_BRO, ADCAST = map(_word, ("gloo:all", "_reduce", "gloo:bro", "adcast"))
SEVEN = (1 << 56) - 1


class Work(NamedTuple):
    """One work, as it is known now."""

    stamp: int
    name: str  # "all_reduce"
    begin: int
    end: int  # 0: it is not complete
    shape: tuple[int, ...]
    dtype: str  # "": not known, or no tensor
    before: Ints | None  # statistics, and then the hash; None: not measured
    after: Ints | None


def put_sizes(tensor: int, row: int) -> int:
    """Write dtype and sizes of a tensor."""
    number = (load(tensor + load(PLACES + DTYPE)) >> load(PLACES + SHIFT)) & 255
    dims, i = load(tensor + load(PLACES + DIMS)), 0
    sizes = tensor + load(PLACES + DIMS) + 8
    if dims > INLINED:
        sizes = load(sizes)
    store(row + DTYPE_AT, load(PLACES + KIND + 8 * number))
    store(row + MANY_AT, dims)
    while i < dims and i < MOST_SIZES:
        store(row + SIZES_AT + 8 * i, load(sizes + 8 * i))
        i += 1
    return dims


def is_in_place(text: int) -> int:
    """Whether a collective writes its result into its tensor, which its work keeps to the end."""
    head, rest = load(text), load(text + 8)
    return (head == GLOO_ALL and rest == REDUCE) or (head == GLOO_BRO and rest & SEVEN == ADCAST)


def work_begins(result: int, function: int) -> int:
    """Called when a work, or a range of the program, begins."""
    store(result, 0)
    text = load(function + load(TEXT_AT))
    if load(function + load(VARIANT)) & 255 != 0:
        return result
    head = load(text)
    if (head >> 24) & 255 != COLON and (head >> 32) & 255 != COLON:
        return result
    row = ROWS + (load(COUNT) & MASK) * ROW
    if load(row + 8) != 0 and load(row + 24) == 0:  # CAPACITY works ago, and still not complete
        increase(LOST, 1)
        return result
    count = increase(COUNT, 1)
    row = ROWS + (count & MASK) * ROW
    store(row, LET_GO)
    store(row + 8, 0)
    clock_gettime(MONOTONIC, row + 24)
    store(row + 16, load(row + 24) * BILLION + load(row + 32))
    store(row + 24, 0)
    store(row + 32, 0)
    store(row + TEXT_OF, head)
    store(row + TEXT_OF + 8, load(text + 8))
    store(row + TEXT_OF + 16, load(text + 16))
    store(row + TENSOR_AT, 0)
    store(row + BYTES_AT, 0)
    store(row + AGAIN_AT, 0)
    store(row + BEFORE_AT + HASH_AT, 0)
    store(row + AFTER_AT + HASH_AT, 0)
    put_given(load(function + load(INPUTS)), load(function + load(INPUTS) + 8), row)
    if load(row + BYTES_AT) > 0:
        store(row + AGAIN_AT, is_in_place(text))
    store(row + 8, count + 1)
    store(result, row)
    return result


def put_given(given: int, many: int, row: int) -> int:
    """Write what is known of the first tensor that is passed."""
    if many <= 0 or load(given + 8) & LOW_HALF != A_TENSOR or load(given) == 0:
        return 0
    tensor = load(given)
    store(row + TENSOR_AT, tensor)
    put_sizes(tensor, row)
    if load(MEASURES) and memory_of(tensor, row + DATA_AT):
        store(row + BEFORE_AT + HASH_AT, hash_of(load(row + DATA_AT), load(row + BYTES_AT)))
        measure(tensor, row + BEFORE_AT)
    return 1


def work_ends(function: int, row: int) -> int:  # noqa: ARG001 -- what it is called with
    """Called when the work is complete, often on another thread; it still holds its tensors."""
    if row == 0 or load(row + 24) != 0:
        return row
    if load(row + AGAIN_AT):
        store(row + AFTER_AT + HASH_AT, hash_of(load(row + DATA_AT), load(row + BYTES_AT)))
        measure(load(row + TENSOR_AT), row + AFTER_AT)
    clock_gettime(MONOTONIC, row + 24)
    return row


class WorkObserver:
    """Records works from `start` to `stop`. One per process. `measures`: also values."""

    def __init__(self, *, measures: bool) -> None:
        self._library, self._code = _ready()
        self._measures = measures
        self._handle = 0
        self._reader = Reader(_rows, _state, STAMP)

    def start(self) -> None:
        """Start."""
        if not self._handle:
            _state[4] = self._measures
            both = self._code.address(work_begins), self._code.address(work_ends)
            self._handle = self._library.observe(*both, USER_SCOPE, given=True)

    def stop(self) -> None:
        """Stop. Ends of works are still seen."""
        if self._handle:
            self._library.remove(self._handle)
            self._handle = 0

    @property
    def lost(self) -> int:
        """Number of works that are not recorded, because too many were not complete."""
        return int(_state[5])

    def read(self) -> list[Work]:
        """The works that have begun since the last reading."""
        rows, _ = self._reader.read()
        return [_work(row) for row in rows]

    def ended(self, stamps: Sequence[int]) -> list[Work]:
        """What is known now of works that were not complete; those overwritten are left out."""
        now = self._reader.again(np.array(stamps, np.int64))
        return [_work(row) for row in now[now[:, STAMP] == stamps]]


def _work(row: Ints) -> Work:
    text = row[TEXT : TEXT + TEXTS].tobytes().partition(b"\0")[0].decode("ascii", "replace")
    kind, many, given = int(row[DTYPES]), int(row[MANY]), bool(row[TENSOR])
    before, after = row[BEFORE:AFTER], row[AFTER:WIDTH]
    return Work(
        int(row[STAMP]),
        text.partition(":")[2],
        int(row[BEGIN]),
        int(row[END] * BILLION + row[NANOSECONDS]) if row[END] else 0,
        tuple(row[FIRST_SIZE : FIRST_SIZE + min(many, SIZES)].tolist()) if given else (),
        KINDS[kind - 1] if given and kind > 0 else "",
        before if before[MEASURED] else None,
        after if after[MEASURED] and row[END] else None,
    )


@cache
def _ready() -> tuple[Library, Compiled]:
    """The library and the callbacks, calibrated."""
    library, offset = ready(), sequence_offset()
    ready_to_measure()
    _state[1:4] = offset - 8 - STRING, offset - 8, inputs_offset()
    code = Compiled([work_begins, work_ends])
    _kept.append(code)
    _check(library, code)
    return library, code


_kept: list[Compiled] = []  # callbacks may be called until the process ends
KNOWN = "gsco:a known range"


def _check(library: Library, code: Compiled) -> None:
    """Check that the name of a known range is found."""

    def program() -> None:
        handle = library.observe(
            code.address(work_begins), code.address(work_ends), USER_SCOPE, given=True
        )
        try:
            with torch.profiler.record_function(KNOWN):
                pass
        finally:
            library.remove(handle)

    before = int(_state[0])
    looks_at(SCOPES - 1, program)
    rows = _rows[np.arange(before, int(_state[0])) & MASK]
    found = [_work(row) for row in rows]
    if [each.name for each in found] != ["a known range"] or not found[0].end:
        raise NotObservable("names of collectives are not where they were expected")
