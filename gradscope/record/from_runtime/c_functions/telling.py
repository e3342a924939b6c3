"""C functions that the runtime calls for every call and every run.

See Note [Numbers without objects] in record/notes/c_functions/noting.py. They also read slots of
gradscope's own classes. Their Python equivalents handle calls that are not ordinary: `noted` passes
on its arguments before it has changed anything.
"""

from __future__ import annotations

from gradscope.machine_code.callables import FAST, Callables
from gradscope.machine_code.interpreter import (
    EQUAL,
    as_int,
    call_nothing,
    call_one,
    clock,
    compare,
    drop,
    from_int,
    item,
    keep,
    length,
    next_item,
    part_of,
    vectorcall,
)
from gradscope.machine_code.language import load, store
from gradscope.machine_code.seldom import due
from gradscope.record.notes.c_functions.noting import KINDS, UNKNOWN, found

# Offsets of the words of a `CallTeller`, the data of `noted`.
ONE_INPUT, TWO_INPUTS, TABLE, COUNTER, BASE, LAYOUTS, ASK, NOTHING, TRUE = range(0, 72, 8)
NODE_SEEN, SEQUENCE, TOPOLOGICAL, SEEN, EDGE, VERSIONS, VALUE = range(72, 128, 8)
CONTEXT, GRAD_ENABLED, CLOCK, SCRATCH = range(128, 160, 8)  # SCRATCH has two words
LAST_SHAPE, LAST_DTYPE, LAST_LAYOUT = range(168, 192, 8)
SELDOM, READ = range(192, 208, 8)

OP, NUMBER, NODE, MADE, META, STATE, BEGIN, FRAME, FIRST, SECOND = range(0, 80, 8)
"""Indices of the arguments of `noted`."""


def known(teller: int, tensor: int, nothing: int) -> int:
    """The number of an ordinary tensor that has one (cold/history.py: `odd`); -1 for others."""
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
    """The number of a known layout; -1 for others. Usually it is that of the last call."""
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
    store(teller + LAST_DTYPE, dtype)  # the key of the layout holds a reference to it
    store(teller + LAST_LAYOUT, as_int(found))
    drop(last)
    return as_int(found)


def numbered(teller: int, node: int, made: int, number: int) -> int:
    """Number a node and its result; a result without a node gets the number minus one."""
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
    """Record a call with one or two known inputs and one result."""
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
    seldom, op = load(teller + SELDOM), as_int(load(given + NUMBER))
    if node != nothing and due(seldom, op, site, layout):
        return call_one(load(teller + READ), node)
    keep(nothing)
    return nothing


# Offsets of the words of a `Follower`, the data of `ran`, `sent` and `counted`.
RUNS, MOVES, OF_NODE, OF_TASK, OF_TOLD, ASK_RAN, ASK_SENT, NO_ANSWER = range(0, 64, 8)
DUE, REST, PLACE, KEY, VALUE_AT = range(64, 104, 8)


def ran(self: int, given: int, count: int) -> int:
    """Record a node's run: begin, end, task, node, queue length, whether it released values."""
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
    """Record a passed gradient: begin of the run, its target node, four numbers, the queue."""
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
    """Write the numbers of a dictionary's nodes to an address, followed by their counts."""
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


class Functions(Callables):
    """All C functions that a recording of the runtime needs."""

    def __init__(self) -> None:
        super().__init__({**KINDS, noted: FAST, ran: FAST, sent: FAST, counted: FAST})
