"""Lookups of the compiled traversal, or questions to Python: kind and inputs of a node."""

from __future__ import annotations

from typing import Any

from gradscope.machine_code.interpreter import (
    MONOTONIC,
    as_int,
    call_one,
    clock_gettime,
    drop,
    from_int,
    item,
    vectorcall,
)
from gradscope.machine_code.language import increase, load, store
from gradscope.watch.native.layout import INLINE
from gradscope.watch.native.records import (
    CONTEXT,
    NUMBER,
    RECORDING,
    SITE,
    TABLE,
    TIME,
    TOPOLOGICAL,
    taken,
)
from gradscope.watch.native.versions import DICT
from gradscope.watch.native.walk_memory import (
    ASK_KIND,
    ASK_LAYOUT,
    ASK_LEAF,
    AT_INPUTS,
    AT_METADATA,
    AT_SHAPE,
    COUNTER,
    CURRENT_RECORDING,
    INPUT_BYTES,
    IS_CUSTOM,
    KINDS,
    KINDS_USED,
    LAYOUT,
    LAYOUTS,
    LAYOUTS_USED,
    LEAVES,
    LOW_HALF,
    MOST_KINDS,
    MOST_LAYOUTS,
    RECORDS,
)

BILLION = 1_000_000_000
to_python: Any = None  # torch::autograd::functionToPyObject, called with a cell
metadata_of: Any = None  # torch::autograd::Node::metadata
own_frees: Any = None  # the destructor of metadata created by PyTorch itself


def python_object(cell: int) -> int:
    """The Python object of the node in a cell; 0: an error.

    A cell begins with the address of a node, followed by that of its reference counts: like the
    objects through which PyTorch owns a node (OWNER in versions.py).
    """
    return to_python(cell)  # type: ignore[no-any-return]


def record_of(graph: int, node: int) -> int:
    """The record of a node, or 0."""
    record = load(node + load(graph + AT_METADATA))
    if record == 0:
        return 0
    if load(record + TABLE) != load(graph + RECORDS):
        return 0
    return record if load(record + RECORDING) == load(graph + CURRENT_RECORDING) else 0


def record_made_late(graph: int, node: int) -> int:
    """The record of a node created before the recording: created now. 0: an error."""
    record = load(node + load(graph + AT_METADATA))
    if record == 0:
        record = metadata_of(node)
    if load(record + TABLE) != load(graph + RECORDS):
        former, record = record, taken()
        if record == 0:
            return 0
        metadata = load(record + DICT)  # the metadata of the program is kept
        store(record + DICT, load(former + DICT))
        store(former + DICT, metadata)
        store(node + load(graph + AT_METADATA), record)
        own_frees(former)
    clock_gettime(MONOTONIC, record + TIME)
    store(record + TIME, load(record + TIME) * BILLION + load(record + TIME + 8))
    store(record + TOPOLOGICAL, -1)
    store(record + CONTEXT, 0)
    store(record + SITE, -1)
    store(record + RECORDING, load(graph + CURRENT_RECORDING))
    store(record + NUMBER, increase(load(graph + COUNTER), 2))
    return record


def is_met(record: int) -> int:
    """Whether a traversal has found the node."""
    return load(record + TOPOLOGICAL) >= 0


def asked(ask: int, cell: int) -> int:
    """Python's answer about the node whose address is stored here."""
    node = python_object(cell)
    if node == 0:
        return 0
    answer = call_one(ask, node)
    drop(node)
    return answer


def place_of_kind(graph: int, key: int) -> int:
    """The cell for the kind of this C++ class."""
    kinds = load(graph + KINDS)
    place = ((key >> 4) ^ (key >> 13)) & (MOST_KINDS - 1)
    there = load(kinds + 16 * place)
    while there != key:
        if there == 0:
            return kinds + 16 * place
        place = (place + 1) & (MOST_KINDS - 1)
        there = load(kinds + 16 * place)
    return kinds + 16 * place


def kind_of(graph: int, cell: int) -> int:
    """The kind of a node; -1: an error."""
    key = load(load(cell))
    place = place_of_kind(graph, key)
    if load(place) == key:
        return load(place + 8)
    answer = asked(load(graph + ASK_KIND), cell)
    if answer == 0:
        return -1
    kind = as_int(answer)
    drop(answer)
    if kind & IS_CUSTOM == 0 and load(graph + KINDS_USED) < MOST_KINDS // 2:
        place = place_of_kind(graph, key)
        increase(graph + KINDS_USED, load(place) == 0)
        store(place + 8, kind)
        store(place, key)
    return kind


def is_layout(entry: int, given: int, at: int, many: int) -> int:
    """Whether this entry has the dtype, device and shape of the description."""
    if load(entry + 8) != load(given) or load(entry + 16) != many:
        return 0
    i = 0
    while i < many:
        if load(entry + 24 + 8 * i) != load(at + 16 + 8 * i):
            return 0
        i += 1
    return 1


def place_of_layout(graph: int, given: int, at: int, many: int) -> int:
    """The cell for the layout in the description."""
    mixed, i = load(given) ^ many, 0
    while i < many:
        mixed = (mixed * 1000003) ^ load(at + 16 + 8 * i)
        i += 1
    place = (mixed ^ (mixed >> 17)) & (MOST_LAYOUTS - 1)
    entry = load(graph + LAYOUTS) + LAYOUT * place
    while load(entry) != 0 and is_layout(entry, given, at, many) == 0:
        place = (place + 1) & (MOST_LAYOUTS - 1)
        entry = load(graph + LAYOUTS) + LAYOUT * place
    return entry


def is_usual(at: int, many: int) -> int:
    """Whether a shape is stored inline, as non-negative numbers."""
    if load(at) != at + 16 or many > INLINE:
        return 0
    i = 0
    while i < many:
        if load(at + 16 + 8 * i) < 0:
            return 0
        i += 1
    return 1


def layout_of(graph: int, cell: int, nr: int, scratch: int) -> int:
    """The number of the layout of one input of a node; -1: an error."""
    node = load(cell)
    given = load(node + load(graph + AT_INPUTS)) + nr * load(graph + INPUT_BYTES)
    at = given + load(graph + AT_SHAPE)
    many = load(at + 8) & LOW_HALF
    usual = is_usual(at, many)
    if usual:
        entry = place_of_layout(graph, given, at, many)
        if load(entry) != 0:
            return load(entry) - 1
    wrapper = python_object(cell)
    if wrapper == 0:
        return -1
    store(scratch, wrapper)
    store(scratch + 8, from_int(nr))
    answer = vectorcall(load(graph + ASK_LAYOUT), scratch, 2, 0)
    drop(load(scratch + 8))
    drop(wrapper)
    if answer == 0:
        return -1
    layout = as_int(answer)
    drop(answer)
    if usual and load(graph + LAYOUTS_USED) < MOST_LAYOUTS // 2:
        entry = place_of_layout(graph, given, at, many)
        if load(entry) == 0:
            increase(graph + LAYOUTS_USED, 1)
            store(entry + 8, load(given))
            store(entry + 16, many)
            i = 0
            while i < many:
                store(entry + 24 + 8 * i, load(at + 16 + 8 * i))
                i += 1
            store(entry, layout + 1)
    return layout


def leaf_of(graph: int, cell: int, address: int) -> int:
    """The data of a leaf (borrowed); 0: an error."""
    key = from_int(address)
    leaf = item(load(graph + LEAVES), key)
    drop(key)
    if leaf == 0:
        leaf = asked(load(graph + ASK_LEAF), cell)
        if leaf != 0:
            drop(leaf)  # it is among the leaves now
    return leaf
