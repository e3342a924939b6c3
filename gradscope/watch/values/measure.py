"""Measures the values of a tensor at an address: compiled code that needs no lock or Python object.

Dense memory is read in memory order; repeated elements of an expanded tensor are read once, and
counted as often as they occur.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.machine_code.language import Address, External, increase, load, store
from gradscope.machine_code.loaded import PROCESS
from gradscope.machine_code.statistics import CHUNK, KINDS, LANES, SIZES, elements
from gradscope.watch.values.layout import INLINE, found, no_tensor
from gradscope.watch.values.ring_rows import BAD, COUNT, HIGH, IN_UNITS, LOW, MEASURED, NAN

MOST_BAD = 8
"""Number of bad elements that are stored."""

MOST_SEARCHED = 1 << 24
"""Number of elements that are searched for them."""

SLOTS, SLOT = 1 << 12, 8 * (1 + MOST_BAD)
"""A slot: the stamp of its row, and the indices of bad elements, or -1."""

# Offsets in `_places`:
STORAGE, IN_STORAGE, BYTES, OFFSET, DIMS, KEYS, PLAIN, DTYPE, SHIFT, SLOTS_USED, NO_TENSOR = range(
    0, 88, 8
)
KIND, ITEM = 88, 88 + 8 * 256
_places = np.zeros(11 + 256 + len(SIZES), np.int64)
_used = memoryview(_places.data)
_slots = np.full((SLOTS, 1 + MOST_BAD), -1, np.int64)
PLACES, BAD_SLOTS = (
    Address(_places.ctypes.data, "places_in_tensors"), Address(_slots.ctypes.data, "bad_slots"),
)  # fmt: skip
PLUS_INFINITY, MINUS_INFINITY = 0x7FF0000000000000, -0x10000000000000
SLOT_MASK, CHUNK_OF, LANES_OF, INLINED = SLOTS - 1, CHUNK, LANES, INLINE
SCRATCH = 8 * MEASURED
FRACTIONS = KINDS.index("int64")  # integer dtypes come after the others

malloc = External(PROCESS, "malloc", 1)
free = External(PROCESS, "free", 1, nothing=True)
each: Any = None  # of machine_code/statistics.py
many: Any = None
repeat: Any = None


def run_of(kind: int, data: int, count: int, stride: int, out: int) -> int:
    """Add elements that are contiguous, or this many bytes apart."""
    size = load(PLACES + ITEM + 8 * kind)
    if stride != size:
        each(kind, data, count, stride, load(out + 64), out)
        return 0
    left = count
    at = data
    while left > 0:
        part = CHUNK_OF if left > CHUNK_OF else left  # noqa: FURB136 -- there is no min
        whole = part & (0 - LANES_OF)
        if whole > 0 and load(out + 64) == 0:
            if many(kind, at, whole, out):
                each(kind, at, whole, size, 0, out)
        else:
            whole = 0
        if part > whole:
            each(kind, at + whole * size, part - whole, size, load(out + 64), out)
        at += part * size
        left -= part
    return 0


def rows_of(kind: int, data: int, sizes: int, strides: int, dims: int, count: int, out: int) -> int:
    """Add elements that are not dense: along one dim, for each index of the others."""
    size, inner, i = load(PLACES + ITEM + 8 * kind), -1, dims - 1
    while i >= 0:
        stride = load(strides + 8 * i)
        wanted = load(sizes + 8 * i) > 1 and stride > 0
        if wanted and (inner < 0 or stride < load(strides + 8 * inner)):
            inner = i
        i -= 1
    length = load(sizes + 8 * inner)
    rows, row = count // length, 0
    while row < rows:
        rest, at, i = row, 0, dims - 1
        while i >= 0:
            many_here = load(sizes + 8 * i)
            if i != inner and load(strides + 8 * i) > 0:
                at += (rest - rest // many_here * many_here) * load(strides + 8 * i)
                rest = rest // many_here
            i -= 1
        run_of(kind, data + at * size, length, load(strides + 8 * inner) * size, out)
        row += 1
    return 0


def is_dense(sizes: int, strides: int, dims: int, count: int) -> int:
    """Whether the elements fill a memory range, in any order, each once."""
    reached, grows = 1, 1
    while grows:
        i, grows = 0, 0
        while i < dims:
            if load(sizes + 8 * i) > 1 and load(strides + 8 * i) == reached:
                reached = reached * load(sizes + 8 * i)
                grows = 1
            i += 1
    return reached == count


def search(kind: int, data: int, sizes: int, strides: int, dims: int, row: int) -> int:
    """Store the indices in the tensor of the first elements that are not finite."""
    count = load(row + 8 * COUNT)
    slot = BAD_SLOTS + SLOT * (increase(PLACES + SLOTS_USED, 1) & SLOT_MASK)
    i = 1
    while i <= MOST_BAD:
        store(slot + 8 * i, -1)
        i += 1
    scratch = malloc(SCRATCH)
    size, found_so_far, i = load(PLACES + ITEM + 8 * kind), 0, 0
    while i < count and i < MOST_SEARCHED and found_so_far < MOST_BAD:
        rest, at, dim = i, 0, dims - 1
        while dim >= 0:
            many_here = load(sizes + 8 * dim)
            at += (rest - rest // many_here * many_here) * load(strides + 8 * dim)
            rest = rest // many_here
            dim -= 1
        store(scratch, 0)
        store(scratch + 8, 0)
        store(scratch + 16, 0)
        each(kind, data + at * size, 1, size, 0, scratch)
        if load(scratch) + load(scratch + 8) + load(scratch + 16) > 0:
            found_so_far += 1
            store(slot + 8 * found_so_far, i)
        i += 1
    free(scratch)
    store(slot, row)
    return 1 + (slot - BAD_SLOTS) // SLOT


def nothing_in(row: int) -> int:
    """Initialize the row with no elements."""
    i = 0
    while i < MEASURED:
        store(row + 8 * i, 0)
        i += 1
    store(row + 8 * LOW, PLUS_INFINITY)
    store(row + 8 * HIGH, MINUS_INFINITY)
    return 0


def plain_kind(tensor: int) -> int:
    """The index of its dtype in KINDS, of a plain tensor on the CPU; -1: it is another one."""
    number = (load(tensor + load(PLACES + DTYPE)) >> load(PLACES + SHIFT)) & 255
    plain = load(tensor + load(PLACES + KEYS)) == load(PLACES + PLAIN)
    return load(PLACES + KIND + 8 * number) - 1 if plain else -1


def dense_count(tensor: int) -> int:
    """Number of elements of a plain tensor that has a storage and is dense; 0 for others."""
    dims, count, i = load(tensor + load(PLACES + DIMS)), 1, 0
    sizes = tensor + load(PLACES + DIMS) + 8
    strides = sizes + 8 * INLINED
    if dims > INLINED:
        sizes = load(sizes)
        strides = sizes + 8 * dims
    while i < dims:
        count = count * load(sizes + 8 * i)
        i += 1
    if count == 0 or is_dense(sizes, strides, dims, count) == 0:
        return 0
    return count if load(tensor + load(PLACES + STORAGE)) != 0 else 0


def window_of(tensor: int) -> int:
    """A hash that is equal for tensors of the same elements in the same memory; 0: not known."""
    kind = plain_kind(tensor)
    count = dense_count(tensor) if kind >= 0 else 0
    if count == 0:
        return 0
    data = load(load(tensor + load(PLACES + STORAGE)) + load(PLACES + IN_STORAGE))
    first = load(tensor + load(PLACES + OFFSET)) * load(PLACES + ITEM + 8 * kind)
    return ((data + first) * 16 + kind) ^ (count * 1000003)


def is_whole(tensor: int) -> int:
    """Whether its dtype is an integer or bool: such a tensor has no gradient."""
    number = (load(tensor + load(PLACES + DTYPE)) >> load(PLACES + SHIFT)) & 255
    return load(PLACES + KIND + 8 * number) > FRACTIONS


def measure(tensor: int, row: int) -> int:
    """Measure the tensor. Returns 1; 0: it cannot be read; -1: it is undefined."""
    keys = load(tensor + load(PLACES + KEYS))
    if keys == 0 or tensor == load(PLACES + NO_TENSOR):
        return -1
    number = (load(tensor + load(PLACES + DTYPE)) >> load(PLACES + SHIFT)) & 255
    kind = load(PLACES + KIND + 8 * number) - 1
    if keys != load(PLACES + PLAIN) or kind < 0:
        return 0
    dims = load(tensor + load(PLACES + DIMS))
    sizes = tensor + load(PLACES + DIMS) + 8
    strides = sizes + 8 * INLINED
    if dims > INLINED:
        sizes = load(sizes)
        strides = sizes + 8 * dims
    nothing_in(row)
    count, once, last, i = 1, 1, 0, 0
    while i < dims:
        many_here, stride = load(sizes + 8 * i), load(strides + 8 * i)
        count = count * many_here
        if stride != 0:
            once = once * many_here
            last += (many_here - 1) * stride
        i += 1
    store(row + 8 * COUNT, count)
    if count == 0:
        return 1
    storage, size = load(tensor + load(PLACES + STORAGE)), load(PLACES + ITEM + 8 * kind)
    if storage == 0:
        return 0
    data, first = load(storage + load(PLACES + IN_STORAGE)), load(tensor + load(PLACES + OFFSET))
    if data == 0 or (first + last + 1) * size > load(storage + load(PLACES + BYTES)):
        return 0
    data += first * size
    out = row + 8 * NAN
    add_all(kind, data, sizes, strides, dims, once, out)
    if load(out + 56) & PLUS_INFINITY == PLUS_INFINITY:  # the square of a value overflowed
        nothing_in(row)
        store(row + 8 * COUNT, count)
        store(row + 8 * IN_UNITS, 1)
        add_all(kind, data, sizes, strides, dims, once, out)
    if once != count:
        repeat(out, count // once)
    if load(out) + load(out + 8) + load(out + 16) > 0:
        store(row + 8 * BAD, search(kind, data, sizes, strides, dims, row))
    return 1


def add_all(kind: int, data: int, sizes: int, strides: int, dims: int, once: int, out: int) -> int:
    """Add all elements, each once."""
    if is_dense(sizes, strides, dims, once):
        return run_of(kind, data, once, load(PLACES + ITEM + 8 * kind), out)
    return rows_of(kind, data, sizes, strides, dims, once, out)


def ready() -> None:
    """Determine the offsets in tensors, and compile the code."""
    global each, many, repeat
    if each is None:
        where, code = found(), elements()
        words = {
            STORAGE: 8 * where.storage, IN_STORAGE: 8 * where.data, BYTES: 8 * where.bytes,
            OFFSET: 8 * where.offset, DIMS: 8 * where.sizes, KEYS: 8 * where.keys,
            PLAIN: where.plain, NO_TENSOR: no_tensor(),
            DTYPE: 8 * (where.dtype // 4), SHIFT: 16 * (where.dtype % 4),
            **{KIND + 8 * said: number + 1 for said, number in where.kinds.items()},
            **{ITEM + 8 * number: size for number, size in enumerate(SIZES.values())},
        }  # fmt: skip
        for place, word in words.items():
            _places[place // 8] = word
        repeat, many, each = code.repeat, code.all, code.each


def slots_used() -> int:
    """Number of slots taken so far."""
    return _used[SLOTS_USED // 8]


def bad_places(slot: int, row: int) -> tuple[int, ...]:
    """The indices of the first bad elements of a row; empty if its slot was reused."""
    owner, *places = _slots[slot - 1].tolist()
    return tuple(place for place in places if place >= 0) if owner == row else ()
