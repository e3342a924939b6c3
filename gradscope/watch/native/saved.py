"""Reads saved values of nodes from memory: a row for each, without Python objects.

Python reads them instead if a value is not a plain tensor on the CPU, if it is in a list (as in
custom functions), or if it is a leaf that no traversal has found. Values are read with the
interpreter lock held, before the backward runs the node.
"""

from __future__ import annotations

from gradscope.machine_code.interpreter import as_int, drop, from_int, item
from gradscope.machine_code.language import increase, load, store
from gradscope.watch.native.forms import form_of
from gradscope.watch.native.lookups import is_met, record_of
from gradscope.watch.native.records import FIRST, MANY, NUMBER, REST, TIME
from gradscope.watch.native.walk_memory import (
    A_LEAF,
    AT_BYTES,
    AT_COUNTER,
    AT_DATA,
    AT_DTYPE,
    AT_HISTORY,
    AT_HOOKS,
    AT_KEYS,
    AT_NEEDS,
    AT_NODE,
    AT_OFFSET,
    AT_OUTPUT,
    AT_STORAGE,
    AT_TENSOR,
    AT_VERSION,
    LARGE_FROM,
    LARGE_SEEN,
    LATER,
    LEAF_TENSOR,
    LEAVES,
    LOW_HALF,
    NO_TENSOR,
    OF_UNMET,
    PACKED,
    PART_OF_DTYPE,
    PART_OF_NEEDS,
    PART_OF_OUTPUT,
    PART_OF_VERSION,
    PENDING,
    PLAIN,
    PLAIN_VALUE,
    SAVED,
    SAVED_ROW,
    SAVED_USED,
    SLOT,
    UNDEFINED,
    WALK,
)

BYTE, QUARTER = 0xFF, 0xFFFF
NOT_PLAIN = -2


def source_of(record: int, nr: int) -> int:
    """The tensor whose gradient this input of a node receives."""
    if nr >= load(record + MANY):
        return NO_TENSOR
    return load(record + FIRST) if nr == 0 else load(record + REST) + 2 * (nr - 1)


def tensor_of(graph: int, row: int, tensor: int) -> int:
    """The tensor, by its node; NO_TENSOR: it has none; NOT_PLAIN: Python has to read it."""
    store(row + 16, PLAIN_VALUE)
    history = load(tensor + load(graph + AT_HISTORY))
    if history == 0:
        return NO_TENSOR
    node = load(history + load(graph + AT_NODE))
    if node != 0:
        record = record_of(graph, node)
        if record == 0:
            return NOT_PLAIN
        word = load(history + load(graph + AT_OUTPUT))
        nr = (word >> load(graph + PART_OF_OUTPUT)) & LOW_HALF
        if is_met(record):
            return source_of(record, nr)
        store(row + 16, LATER)
        store(row + 104, nr)
        increase(graph + PENDING, 1)
        return record
    word = load(history + load(graph + AT_NEEDS))
    if (word >> load(graph + PART_OF_NEEDS)) & BYTE == 0:
        return NO_TENSOR
    key = from_int(tensor)
    leaf = item(load(graph + LEAVES), key)
    drop(key)
    if leaf == 0:
        return NOT_PLAIN
    store(row + 16, A_LEAF)
    return as_int(load(leaf + LEAF_TENSOR))


def put_tensor(graph: int, row: int, tensor: int) -> int:
    """Write all columns about a tensor; 0: Python has to read it."""
    if load(tensor + load(graph + AT_KEYS)) != load(graph + PLAIN):
        return 0
    which = tensor_of(graph, row, tensor)
    if which == NOT_PLAIN:
        return 0
    word = load(tensor + load(graph + AT_DTYPE))
    form = form_of(graph, (word >> load(graph + PART_OF_DTYPE)) & QUARTER, tensor)
    if form < 0:
        return 0
    store(row + 96, form)
    store(row + 24, which)
    storage = load(tensor + load(graph + AT_STORAGE))
    if storage == 0:
        return 0
    store(row + 64, load(storage + load(graph + AT_DATA)))
    store(row + 72, load(storage + load(graph + AT_BYTES)))
    if load(row + 72) >= load(graph + LARGE_FROM):
        increase(graph + LARGE_SEEN, 1)
    store(row + 128, storage)
    store(row + 80, load(tensor + load(graph + AT_OFFSET)))
    counter, version = load(tensor + load(graph + AT_COUNTER)), 0
    if counter != 0:
        word = load(counter + load(graph + AT_VERSION))
        version = (word >> load(graph + PART_OF_VERSION)) & LOW_HALF
    store(row + 88, version)
    store(row + 120, counter)
    return 1


def put_own(record: int, row: int, nr: int, layouts: int) -> int:
    """Write the identity and form of a result of the node itself."""
    store(row + 32, NO_TENSOR)
    store(row + 40, 0)
    if nr >= 0:
        store(row + 32, source_of(record, nr))
        if load(row + 32) != NO_TENSOR:
            store(row + 40, load(layouts + 8 * nr))
    return 0


def put_saved(graph: int, node: int, record: int, slots: int, layouts: int) -> int:
    """Write the rows of a node's saved values; 0: none were written, Python has to read them."""
    before, i, many = load(graph + SAVED_USED), 0, load(slots)
    row = load(graph + SAVED) + SAVED_ROW * before
    while i < many:
        slot = slots + 8 + SLOT * i
        kept = node + load(slot)
        tensor, what = load(kept + load(graph + AT_TENSOR)), load(kept + load(graph + AT_HOOKS))
        if what != 0 or (tensor != 0 and tensor != load(graph + UNDEFINED)):
            store(row + 112, 0)
            store(row + 120, 0)
            store(row + 128, 0)
            if what != 0:
                store(row + 16, PACKED)
            else:
                if put_tensor(graph, row, tensor) == 0:
                    store(graph + SAVED_USED, before)
                    return 0
                put_own(record, row, load(slot + 16), layouts)
                none_made_it = load(row + 16) == PLAIN_VALUE and load(row + 24) == NO_TENSOR
                store(row + 112, tensor if none_made_it and load(slot + 16) < 0 else 0)
            store(row, load(record + NUMBER))
            store(row + 8, load(slot + 8))
            store(row + 48, load(record + TIME))
            store(row + 56, load(graph + WALK))
            increase(graph + SAVED_USED, 1)
            row += SAVED_ROW
        i += 1
    return 1


def settle(graph: int) -> int:
    """Complete the tensors of all rows so far: the nodes that created them are known now."""
    if load(graph + PENDING) == 0:
        return 0
    row, i = load(graph + SAVED), 0
    while i < load(graph + SAVED_USED):
        if load(row + 16) == LATER:
            record = load(row + 24)
            store(row + 16, PLAIN_VALUE)
            store(row + 24, OF_UNMET)
            if is_met(record):
                store(row + 24, source_of(record, load(row + 104)))
        row += SAVED_ROW
        i += 1
    store(graph + PENDING, 0)
    return 0
