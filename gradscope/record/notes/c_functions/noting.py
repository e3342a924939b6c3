"""What every source notes with, as C functions.

# Note [Numbers without objects]
A call and the run of its node take five microseconds; telling a watcher in Python what they did
would take two, most of them the interpreter's own. So what is called for every note are C functions
of the kind CPython's builtins are (METH_FASTCALL and others). They use functions of the stable
interface only, and run with the interpreter's lock held, so that each call is one step for all
threads.

Each has a twin in plain Python, which serves until so much has been noted that compiling pays,
and wherever that is not possible.

What they work on are arrays of words, whose address is the `self` of the function.
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

# A buffer is six words: where its cells are, how many records are there, how many fit, who takes
# over when it is full, None, and how many bytes a column takes: a record is one cell in each.


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
    """Give the buffer other cells; return how many records the former held."""
    buffer = as_int(self)
    used = load(buffer + 8)
    store(buffer, as_int(cells))
    store(buffer + 8, 0)
    return from_int(used)


# A table is four words: where its keys are, where its values are, its size less one, and who is
# asked about frames that are not in it. Keys are addresses; 0 is none.


def placed(table: int, frame: int) -> int:
    """What the table says of where a frame is."""
    code = code_of(frame)
    drop(code)  # the frame keeps it
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


# A counter is three words: the next number, the first it may not give, and StopIteration.


def number(self: int, nothing: int) -> int:
    counter = as_int(self)
    number = load(counter)
    if number >= load(counter + 8):
        raise_(load(counter + 16))
        return 0
    store(counter, number + 2)
    return from_int(number)


KINDS: dict[Function, int] = {push: FAST, swap: ONE, site: ONE, number: NONE}
"""Those that Python calls, and how."""
