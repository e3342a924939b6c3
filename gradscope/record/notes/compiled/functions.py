"""What is called for every note, as C functions.

# Note [Numbers without objects]
A call and the run of its node take five microseconds; telling a watcher in Python what they did
would take two, most of them the interpreter's own. So the probe's callables are C functions of the
kind CPython's builtins are (METH_FASTCALL and others). They use functions of the stable interface
only, look into slots of our own classes, and run with the interpreter's lock held, so that each
call is one step for all threads.

Each has a twin in plain Python, which serves until so much has been noted that compiling pays,
wherever that is not possible, and whenever a call is not an ordinary one: `noted` hands over what
it was given, and has done nothing yet.

What they work on are arrays of words, whose address is the `self` of the function.
"""

from __future__ import annotations

import ctypes
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gradscope.compiled.interpreter import (
    EQUAL,
    as_int,
    call_nothing,
    call_one,
    caller_of,
    clock,
    code_of,
    compare,
    drop,
    from_int,
    item,
    keep,
    length,
    next_item,
    offset_in,
    part_of,
    raise_,
    vectorcall,
)
from gradscope.compiled.language import Compiled, Function, load, store
from gradscope.record.notes.compiled import OURS

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


# A teller is what `noted` needs: these are the places of its words.
ONE_INPUT, TWO_INPUTS, TABLE, COUNTER, BASE, LAYOUTS, ASK, NOTHING, TRUE = range(0, 72, 8)
NODE_SEEN, SEQUENCE, TOPOLOGICAL, SEEN, EDGE, VERSIONS, VALUE = range(72, 128, 8)
CONTEXT, GRAD_ENABLED, CLOCK, SCRATCH = range(128, 160, 8)  # SCRATCH takes two
LAST_SHAPE, LAST_DTYPE, LAST_LAYOUT = range(168, 192, 8)

OP, NUMBER, NODE, MADE, META, STATE, BEGIN, FRAME, FIRST, SECOND = range(0, 80, 8)
"""Where the arguments of `noted` are."""


def known(teller: int, tensor: int, nothing: int) -> int:
    """The number of an ordinary tensor that has one (not catalog.odd); -1 for others."""
    seen = as_int(load(tensor + load(teller + SEEN)))
    if seen <= load(teller + BASE):
        return -1
    versions = load(tensor + load(teller + VERSIONS))
    if versions != nothing:
        if as_int(load(versions + load(teller + VALUE))) != 0:
            return -1
        if seen & 1 == 1 and load(tensor + load(teller + EDGE)) == nothing:
            return -1
    return seen


def arranged(teller: int, meta: int) -> int:
    """The number of a layout that is known, -1 for others. Mostly it is that of the last call."""
    pair = part_of(meta, 0)
    shape, dtype = part_of(pair, 0), part_of(pair, 1)
    last = load(teller + LAST_SHAPE)
    if dtype == load(teller + LAST_DTYPE) and compare(shape, last, EQUAL) == 1:
        return load(teller + LAST_LAYOUT)
    found = item(load(teller + LAYOUTS), meta)
    if found == 0:
        return -1
    keep(shape)
    store(teller + LAST_SHAPE, shape)
    store(teller + LAST_DTYPE, dtype)  # which the key of the layout keeps
    store(teller + LAST_LAYOUT, as_int(found))
    drop(last)
    return as_int(found)


def numbered(teller: int, node: int, made: int, number: int) -> int:
    """Let a node and what it made carry a number; without a node, the one before it."""
    slot = made + load(teller + SEEN)
    if node == load(teller + NOTHING):
        value = from_int(number - 1)
    else:
        value = from_int(number)
        keep(value)
        other = node + load(teller + NODE_SEEN)
        drop(load(other))
        store(other, value)
    drop(load(slot))
    store(slot, value)
    return 0


def noted(self: int, given: int, count: int) -> int:
    """Note a call with one or two known inputs and one result."""
    teller = as_int(self)
    nothing = load(teller + NOTHING)
    end = clock(teller + SCRATCH, load(teller + CLOCK))
    state, node = load(given + STATE), load(given + NODE)
    log = load(teller + (ONE_INPUT if count == FIRST // 8 + 1 else TWO_INPUTS))
    used = load(log + 8)
    counter = load(teller + COUNTER)
    number = load(counter)
    context = as_int(load(state + load(teller + CONTEXT)))
    first = known(teller, load(given + FIRST), nothing)
    second = 0
    if count == SECOND // 8 + 1:
        second = known(teller, load(given + SECOND), nothing)
    layout = arranged(teller, load(given + META))
    site = found(load(teller + TABLE), load(given + FRAME))
    ordinary = first >= 0 and second >= 0 and context > 0 and layout >= 0 and site != UNKNOWN
    if not ordinary or number >= load(counter + 8) or used >= load(log + 16):
        return vectorcall(load(teller + ASK), given, count, 0)
    store(counter, number + 2)
    numbered(teller, node, load(given + MADE), number)
    sequence, top = -2, -1
    if node != nothing:
        sequence = as_int(load(node + load(teller + SEQUENCE)))
        top = as_int(load(node + load(teller + TOPOLOGICAL)))
    elif load(state + load(teller + GRAD_ENABLED)) == load(teller + TRUE):
        sequence = -1
    cell, column = load(log) + 8 * used, load(log + 40)
    store(cell, number)
    store(cell + column, as_int(load(given + BEGIN)))
    store(cell + column * 2, end)
    store(cell + column * 3, context)
    store(cell + column * 4, as_int(load(given + NUMBER)))
    store(cell + column * 5, sequence)
    store(cell + column * 6, top)
    store(cell + column * 7, first)
    if count == SECOND // 8 + 1:
        cell += column
        store(cell + column * 7, second)
    store(cell + column * 8, site)
    store(cell + column * 9, layout)
    store(log + 8, used + 1)
    keep(nothing)
    return nothing


# A follower is what `ran`, `sent` and `counted` need: these are the places of its words.
RUNS, MOVES, OF_NODE, OF_TASK, OF_TOLD, ASK_RAN, ASK_SENT, NO_ANSWER = range(0, 64, 8)
DUE, REST, PLACE, KEY, VALUE_AT = range(64, 104, 8)


def ran(self: int, given: int, count: int) -> int:
    """Note a node's run: begin, end, task, node, length of the queue, what it let go of."""
    follower = as_int(self)
    log, end = load(follower + RUNS), as_int(load(given + 8))
    if end > load(follower + DUE):
        answer = call_nothing(load(follower + REST))
        if answer == 0:  # interrupted
            return 0
        drop(answer)
    used = load(log + 8)
    if used >= load(log + 16):
        return vectorcall(load(follower + ASK_RAN), given, count, 0)
    task, node = load(given + 16), load(load(given + 24) + load(follower + OF_NODE))
    cell, column = load(log) + 8 * used, load(log + 40)
    store(cell, as_int(load(given)))
    store(cell + column, end)
    store(cell + column * 2, as_int(load(task + load(follower + OF_TASK))))
    store(cell + column * 3, as_int(node))
    store(cell + column * 4, as_int(load(given + 32)))
    store(cell + column * 5, as_int(load(given + 40)))
    store(log + 8, used + 1)
    told = task + load(follower + OF_TOLD)
    keep(node)
    drop(load(told))
    store(told, node)
    keep(load(follower + NO_ANSWER))
    return load(follower + NO_ANSWER)


def sent(self: int, given: int, count: int) -> int:
    """Note a gradient handed on: begin of the run, the node it is for, four numbers, the queue."""
    follower = as_int(self)
    log = load(follower + MOVES)
    used = load(log + 8)
    if used >= load(log + 16):
        return vectorcall(load(follower + ASK_SENT), given, count, 0)
    cell, column = load(log) + 8 * used, load(log + 40)
    store(cell, as_int(load(given)))
    store(cell + column, as_int(load(load(given + 8) + load(follower + OF_NODE))))
    i = 2
    while i < 6:
        store(cell + column * i, as_int(load(given + 8 * i)))
        i += 1
    store(cell + column * 6, length(load(given + 48)))
    store(log + 8, used + 1)
    keep(load(follower + NO_ANSWER))
    return load(follower + NO_ANSWER)


def counted(self: int, given: int, count: int) -> int:
    """Write the numbers of a dictionary's nodes to an address, and behind them their counts."""
    follower = as_int(self)
    counts, out, size = load(given), as_int(load(given + 8)), as_int(load(given + 16))
    place, key, value = follower + PLACE, follower + KEY, follower + VALUE_AT
    store(place, 0)
    done = 0
    while done < size and next_item(counts, place, key, value) != 0:
        store(out + 8 * done, as_int(load(load(key) + load(follower + OF_NODE))))
        store(out + 8 * (size + done), as_int(load(value)))
        done += 1
    keep(load(follower + NO_ANSWER))
    return load(follower + NO_ANSWER)


FAST, ONE, NONE = 0x80, 0x08, 0x04  # METH_FASTCALL, METH_O, METH_NOARGS


class _Method(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class HasWords(Protocol):
    """What a function works on."""

    words: NDArray[np.int64]


class Functions:
    """The functions, compiled once in a process, for all who work with them."""

    def __init__(self) -> None:
        kinds: dict[Function, int] = {
            push: FAST, swap: ONE, site: ONE, number: NONE, noted: FAST, ran: FAST, sent: FAST,
            counted: FAST,
        }  # fmt: skip
        compiled = Compiled(list(kinds))
        self._compiled = compiled
        self._methods = {
            function: _Method(function.__name__.encode(), compiled.address(function), flags, None)
            for function, flags in kinds.items()
        }
        # Callables hold pointers into this, and may outlive everything else when Python ends.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
        # The third argument is the module a function belongs to; CPython only holds on to it.
        made, given = (
            ctypes.py_object,
            (ctypes.POINTER(_Method), ctypes.py_object, ctypes.py_object),
        )
        self._new = ctypes.PYFUNCTYPE(made, *given)(("PyCFunction_NewEx", ctypes.pythonapi))

    def over(self, function: Any, owner: HasWords) -> Any:
        """The callable of one of these functions; it keeps the owner of its words alive."""
        return self._new(ctypes.byref(self._methods[function]), owner.words.ctypes.data, owner)
