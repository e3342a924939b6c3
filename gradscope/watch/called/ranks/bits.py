"""A hash of a tensor's bits, computed by machine code while PyTorch uses the tensor.

Equal bits have equal hashes in all processes, so ranks can be compared without exchanging values.
"""

from __future__ import annotations

from gradscope.machine_code.language import load, store
from gradscope.watch.values.measure import (
    BYTES,
    IN_STORAGE,
    ITEM,
    OFFSET,
    PLACES,
    STORAGE,
    dense_count,
    plain_kind,
)

MIXING, START = 0x9E3779B97F4A7C15 >> 1, 0x51ED270B


def memory_of(tensor: int, out: int) -> int:
    """Write address and size of the elements of a dense tensor on the CPU. Returns 0 for others."""
    kind = plain_kind(tensor)
    count = dense_count(tensor) if kind >= 0 else 0
    if count == 0:
        return 0
    storage, item = load(tensor + load(PLACES + STORAGE)), load(PLACES + ITEM + 8 * kind)
    data, first = load(storage + load(PLACES + IN_STORAGE)), load(tensor + load(PLACES + OFFSET))
    if data == 0 or (first + count) * item > load(storage + load(PLACES + BYTES)):
        return 0
    store(out, data + first * item)
    store(out + 8, count * item)
    return 1


def hash_of(data: int, size: int) -> int:
    """The hash of these bytes; never 0, which stands for none."""
    found, at, end = START ^ size, data, data + size
    while at + 8 <= end:
        found = (found ^ load(at)) * MIXING
        found ^= found >> 29
        at += 8
    while at < end:  # whole words are read, so that none lies beyond the page of the last byte
        found = (found ^ ((load(at & -8) >> (8 * (at & 7))) & 255)) * MIXING
        found ^= found >> 29
        at += 1
    return 1 if found == 0 else found
