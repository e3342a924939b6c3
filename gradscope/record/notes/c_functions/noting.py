"""The recording functions shared by all sources, as C functions.

# Note [Numbers without objects]
A call and the run of its node take five microseconds; reporting them to a watcher in Python would
take two, mostly in the interpreter. So the functions that are called for every note are C functions
of the same kind as CPython's builtins (METH_FASTCALL and others). They use only functions of the
stable interface, and run with the interpreter lock held, so that each call is atomic.

Each has an equivalent in plain Python, which is used until enough has been recorded for compiling
to pay off, and wherever compiling is not possible.

They work on arrays of words, whose address is the `self` of the function.
"""

from __future__ import annotations

from gradscope.machine_code.callables import FAST, NONE, ONE
from gradscope.machine_code.interpreter import (
    as_int,
    call_one,
    caller_of,
    code_of,
    drop,
    from_int,
    keep,
    offset_in,
    raise_,
    vectorcall,
)
from gradscope.machine_code.language import Function, load, store
from gradscope.record.notes.c_functions import OURS

UNKNOWN = -3

# A buffer is six words: address of its cells, number of records, capacity, the function called when
# it is full, None, and the bytes of a column: a record is one cell in each column.


def push(self: int, arguments: int, count: int) -> int:
    buffer = as_int(self)
    used = load(buffer + 8)
    if used >= load(buffer + 16):
        return vectorcall(load(buffer + 24), arguments, count, 0)
    cell, column = load(buffer) + 8 * used, load(buffer + 40)
    i = 0
    while i < count:
        store(cell + column * i, as_int(load(arguments + 8 * i)))
        i += 1
    store(buffer + 8, used + 1)
    none = load(buffer + 32)
    keep(none)
    return none


def swap(self: int, cells: int) -> int:
    """Give the buffer other cells. Returns the number of records in the previous ones."""
    buffer = as_int(self)
    used = load(buffer + 8)
    store(buffer, as_int(cells))
    store(buffer + 8, 0)
    return from_int(used)


# A table is four words: address of its keys, address of its values, its size minus one, and the
# function called for frames that are not in it. Keys are addresses; 0 is none.


def placed(table: int, frame: int) -> int:
    """The value in the table for the current line of a frame."""
    code = code_of(frame)
    drop(code)  # the frame holds it
    key = code + offset_in(frame)
    keys, mask = load(table), load(table + 16)
    place = (key ^ (key >> 17)) & mask
    there = load(keys + 8 * place)
    while there != key:
        if there == 0:
            return UNKNOWN
        place = (place + 1) & mask
        there = load(keys + 8 * place)
    return load(load(table + 8) + 8 * place)


def found(table: int, frame: int) -> int:
    """The site of a frame, or of its nearest caller that is not OURS; else UNKNOWN."""
    site = placed(table, frame)
    if site != OURS:
        return site
    at = caller_of(frame)
    while at != 0:
        site = placed(table, at)
        above = caller_of(at) if site == OURS else 0
        drop(at)
        at = above
    return UNKNOWN if site == OURS else site


def site(self: int, frame: int) -> int:
    table = as_int(self)
    site = found(table, frame)
    if site == UNKNOWN:
        return call_one(load(table + 24), frame)
    return from_int(site)


# A counter is three words: the next number, the limit, and StopIteration.


def number(self: int, nothing: int) -> int:
    counter = as_int(self)
    number = load(counter)
    if number >= load(counter + 8):
        raise_(load(counter + 16))
        return 0
    store(counter, number + 2)
    return from_int(number)


KINDS: dict[Function, int] = {push: FAST, swap: ONE, site: ONE, number: NONE}
"""The functions that Python calls, with their calling conventions."""
