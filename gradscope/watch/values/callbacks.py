"""Callbacks that look at what nodes are given, and at what calls return.

# Note [What is looked at]
A node's run begins with the gradients it takes (`needs_inputs`); what it returns is not told. It
goes to the next node, which takes it; or is added to what is kept there: `add` and `add_`, called
by the engine between runs, are given both, and return the sum. Inside the run of a leaf's node they
return what `.grad` is then. Of other calls it is their results (`needs_outputs`) that are looked
at, if they may have made a node. A call that raised has none.

A call may return what a call inside it has just returned: that is looked at once.

Nothing of Python's is called here, and no lock is taken.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch

from gradscope.compiled.language import Compiled, increase, load, store
from gradscope.watch import observer as runs
from gradscope.watch.called import observer as calls
from gradscope.watch.called.observer import call_begins, call_ends
from gradscope.watch.called.rows import value_at
from gradscope.watch.observer import (
    BACKWARD_FUNCTION,
    NotObservable,
    looks_at,
    run_put_down,
    sequence_offset,
)
from gradscope.watch.values import ring
from gradscope.watch.values.ring import put, put_same
from gradscope.watch.values.rows import HEAD, LOW, OPERAND, PLACE, RESULT, SUMMED, TAKEN

A_TENSOR, VALUE = 1, 16  # c10::IValue: which kind it is, and its size
BEHIND_SEQUENCE = 80  # the sequence number, inputs, and inputs by name lie between it and results

_state = np.zeros(8 + 4 * calls.THREADS, np.int64)
STATE = _state.ctypes.data
INPUTS, RESULTS, NUMBER = STATE, STATE + 8, STATE + 16
DEPTH, IN_LEAF, LAST, LAST_STAMP = (STATE + 64 + 8 * n * calls.THREADS for n in range(4))
LAST_THREAD, LOW_HALF, LEAF = calls.LAST_THREAD, 0xFFFFFFFF, -1
RUN_ROWS, RUN_ROW, RUN_COUNT, RUNS, RUN_BEGINS, RUN_ENDS = (
    runs.ROWS, runs.ROW, runs.STATE, runs.CAPACITY, runs.BEGIN, runs.END,
)  # fmt: skip
RUN_OFFSET, RUN_NUMBER = runs.OFFSET, 8 * runs.RUN
CALL_ROWS, CALL_MASK = calls.ROWS, calls.MASK
ADD, ADD_IN_PLACE, INSIDE, OFFSET, SCHEMA = (
    calls.A, calls.B, calls.INSIDE, calls.OFFSET, calls.SCHEMA,
)  # fmt: skip
VARIANT, NO_SCHEMA = calls.VARIANT, calls.NO_SCHEMA
BILLION = 1_000_000_000
thread: Any = None  # at::RecordFunction::currentThreadId


def put_value(place: int, index: int, key: int, t: int, value: int) -> int:
    """A row of one of PyTorch's values, if it is a tensor. Its stamp, or 0."""
    tensor = load(value)
    if load(value + 8) & LOW_HALF != A_TENSOR or tensor == 0:
        return 0
    return put(place, index, key, t, 0, 0, 0, tensor)


def run_begins(result: int, function: int) -> int:
    """A node's function begins."""
    store(result, 0)
    here = 8 * (thread() & LAST_THREAD)
    increase(DEPTH + here, 1)
    store(IN_LEAF + here, load(function + load(RUN_OFFSET)) == LEAF)
    count = increase(RUN_COUNT, 1)
    if count < RUNS:
        row = RUN_ROWS + count * RUN_ROW
        run_put_down(function, RUN_BEGINS, row)
        number = increase(NUMBER, 1) + 1
        store(row + RUN_NUMBER, number)
        t = load(row) * BILLION + load(row + 8)
        given, many, i = load(function + load(INPUTS)), load(function + load(INPUTS) + 8), 0
        while i < many:
            put_value(TAKEN, i, number, t, given + VALUE * i)
            i += 1
    return result


def run_ends(function: int, given: int) -> int:
    """It ended, whether by itself or by an exception."""
    here = 8 * (thread() & LAST_THREAD)
    if load(DEPTH + here) > 0:
        increase(DEPTH + here, -1)
    store(IN_LEAF + here, 0)
    count = increase(RUN_COUNT, 1)
    if count < RUNS:
        run_put_down(function, RUN_ENDS, RUN_ROWS + count * RUN_ROW)
    return given


def is_sum(function: int, here: int) -> int:
    """Whether a call adds gradients for the engine: between runs of nodes, or in that of a leaf."""
    if load(function + load(OFFSET)) >= 0 or load(function + load(VARIANT)) & 255 == NO_SCHEMA:
        return 0
    word = load(function + load(SCHEMA))
    if word != load(ADD) and word != load(ADD_IN_PLACE):
        return 0
    return load(IN_LEAF + here) != 0 or load(DEPTH + here) < load(INSIDE + here)


def time_of(stamp: int) -> int:
    """When the row of a call was put down."""
    row = CALL_ROWS + ((stamp - 1) & CALL_MASK) * 64
    return load(row + 8) * BILLION + load(row + 16)


def looking_begins(result: int, function: int) -> int:
    """A call begins."""
    store(result, 0)
    stamp, here = call_begins(function), 8 * (thread() & LAST_THREAD)
    store(LAST + here, 0)
    if stamp > 0 and load(IN_LEAF + here) == 0 and is_sum(function, here):
        given, t = load(function + load(INPUTS)), time_of(stamp)
        put_value(OPERAND, 0, stamp, t, given)
        put_value(OPERAND, 1, stamp, t, given + VALUE)
    return result


def looking_ends(function: int, given: int) -> int:
    """It ended, whether by itself or by an exception."""
    stamp = call_ends(function)
    results = function + load(RESULTS)
    value, end = load(results), load(results + 8)
    if stamp > 0 and value != end:
        here, t = 8 * (thread() & LAST_THREAD), time_of(stamp)
        if load(function + load(OFFSET)) >= 0:
            put_results(value, end, stamp, t, here)
        elif is_sum(function, here):
            put_value(SUMMED, 0, stamp, t, value)
    return given


def put_results(first: int, end: int, call: int, t: int, here: int) -> int:
    """Rows of what a call has returned. What its last row was of is kept, until a call begins."""
    value, index = first, 0
    while value < end:
        if load(LAST + here) == load(value) and load(value) != 0:
            store(LAST_STAMP + here, put_same(index, call, t, load(LAST_STAMP + here)))
        else:
            stamp = put_value(RESULT, index, call, t, value)
            store(LAST + here, load(value) if stamp > 0 else 0)
            store(LAST_STAMP + here, stamp)
        value += VALUE
        index += 1
    return 0


class Around(NamedTuple):
    """Addresses of callbacks: those around runs of nodes, and those around calls."""

    runs: tuple[int, int]
    calls: tuple[int, int]


@cache
def around() -> Around:
    """The callbacks, for this build of PyTorch. They raise NotObservable if it is not as known."""
    global thread  # noqa: PLW0603 -- compiled code names it
    library, _ = calls._ready()
    thread = library.thread
    ring.functions()
    _state[0] = _inputs_at()
    _state[1] = sequence_offset() + BEHIND_SEQUENCE
    code = Compiled([run_begins, run_ends, looking_begins, looking_ends])
    _kept.append(code)
    found = Around(
        (code.address(run_begins), code.address(run_ends)),
        (code.address(looking_begins), code.address(looking_ends)),
    )
    _check(found)
    return found


_kept: list[Compiled] = []  # callbacks may be called as long as the process lives


def _program() -> None:
    """Nodes that take one, two and three gradients."""
    with torch.enable_grad():
        x = torch.ones(3, 2, requires_grad=True)
        parts = x.unbind(0)
        torch.autograd.backward(parts, [torch.full((2,), float(n)) for n in (5, 6, 7)])
        parts = torch.ones(2, 2, requires_grad=True).unbind(0)
        torch.autograd.backward(parts, [torch.full((2,), float(n)) for n in (8, 9)])


MANY = [0, 3, 1, 0, 2, 1]
"""How many its nodes take, in the order of their runs: those above several roots take none."""


def _inputs_at() -> int:
    """How far into a RecordFunction it is said where a node's inputs are, and then how many."""
    looks = looks_at(BACKWARD_FUNCTION, _program, given=True)
    places = [
        at
        for at in range(runs.LOOKED_AT - 1)
        if [words[at + 1] for words in looks] == MANY
        and all(words[at] for words in looks if words[at + 1])
    ]
    if len(places) != 1:
        raise NotObservable(f"what nodes take is at {len(places)} places")
    for words in looks:
        if words[places[0] + 1]:
            try:
                value_at(words[places[0]])
            except OSError:
                raise NotObservable("what nodes take is not where it was expected") from None
    return 8 * places[0]


def _check(found: Around) -> None:
    """Whether what a known program's nodes take and its calls return is read as it is."""
    library, _ = calls._ready()
    own = ring.Ring()
    handles = [
        library.observe(*found.runs, BACKWARD_FUNCTION, given=True),
        library.observe(*found.calls, calls.FUNCTION, given=True, results=True),
    ]
    try:
        looks_at(runs.SCOPES - 1, _known)
    finally:
        for handle in handles:
            library.remove(handle)
    rows = own.read().rows
    low = rows[:, HEAD + LOW].view(np.float64)
    said = {
        place: low[rows[:, PLACE] == place].tolist() for place in (TAKEN, OPERAND, SUMMED, RESULT)
    }
    if said != KNOWN:
        raise NotObservable("what calls return is not where it was expected")


def _known() -> None:
    with torch.enable_grad():
        x = torch.full((2,), 3.0, requires_grad=True)
        y = x.neg()
        torch.autograd.backward([y, y], [torch.full((2,), 5.0), torch.full((2,), 6.0)])


KNOWN = {TAKEN: [11.0, -11.0], OPERAND: [5.0, 6.0], SUMMED: [11.0], RESULT: [-3.0]}
