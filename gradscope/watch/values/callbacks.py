"""Callbacks that measure inputs of nodes and results of calls.

# Note [What is measured]
At the begin of a node's run, callbacks receive its gradients (`needs_inputs`); its outputs are not
available. These go to the next node, which receives them, or are added to a gradient that waits
there: `add` and `add_`, which the engine calls between runs, receive both and return the sum. In
the run of a leaf's node they return the new `.grad`. Of other calls, the results (`needs_outputs`)
are measured, if they may have created a node. A call that raised has none. Integer results
(indices, masks, workspaces of kernels) are skipped: no node creates them.

# Note [Known tensors]
A result that a nested call has just returned, or a gradient that passes from node to node, has the
same values as before; so does a view of all its elements, as many calls and nodes create. This
holds if no call came between with another first argument or another result. Such a tensor is KNOWN,
and its row is a copy of the previous one. A call that returns its argument may have written to it.

Nothing here calls Python or takes a lock.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch

from gradscope.machine_code.language import Address, Compiled, increase, load, store
from gradscope.watch import observer as runs
from gradscope.watch.called import observer as calls
from gradscope.watch.called.in_memory import value_at
from gradscope.watch.called.made import DEEP
from gradscope.watch.called.observer import call_begins, call_ends, put_down
from gradscope.watch.called.ranks import carried
from gradscope.watch.called.ranks.carried import IS_ON, carrying_begins, carrying_ends
from gradscope.watch.called.writes import ALLOWED, BEHIND_PREFIX, length_of
from gradscope.watch.observer import (
    BACKWARD_FUNCTION,
    FUNCTION,
    VALUE,
    NotObservable,
    looks_at,
    results_offset,
    run_ends,
    run_put_down,
    sequence_offset,
)
from gradscope.watch.values import measure, ring, without_node
from gradscope.watch.values.lists import A_TENSOR, lists
from gradscope.watch.values.ring import HOOKS
from gradscope.watch.values.ring_rows import HEAD, LOW, OPERAND, PLACE, RESULT, SUMMED, TAKEN
from gradscope.watch.values.without_node import put_call

_state = np.zeros(8 + 6 * calls.THREADS, np.int64)
STATE = Address(_state.ctypes.data, "state_of_values")
INPUTS, RESULTS, NUMBER, LIST, IN_LIST = (STATE + 8 * n for n in range(5))
DEPTH, IN_LEAF, KNOWN, WINDOW, ROW_OF, FRESH = (
    STATE + 64 + 8 * n * calls.THREADS for n in range(6)
)  # of each thread; FRESH: no call began since
LAST_THREAD, LOW_HALF, LEAF = calls.LAST_THREAD, 0xFFFFFFFF, -1
RUN_ROWS, RUN_ROW, RUN_COUNT, RUNS = runs.ROWS, runs.ROW, runs.STATE, runs.CAPACITY
RUN_OFFSET, RUN_NUMBER = runs.OFFSET, 8 * runs.RUN
ADD, ADD_IN_PLACE, INSIDE, OFFSET, SCHEMA = (
    calls.A, calls.B, calls.INSIDE, calls.OFFSET, calls.SCHEMA,
)  # fmt: skip
VARIANT, NO_SCHEMA = calls.VARIANT, calls.NO_SCHEMA
BILLION = 1_000_000_000
LIFT_FRESH, LONG = int.from_bytes(b"lift_fre", "little"), len("aten::lift_fresh")
thread: Any = None  # at::RecordFunction::currentThreadId
put: Any = None  # of ring.py, like the next three
put_same: Any = None
is_good: Any = None
is_bad: Any = None
window_of: Any = None
is_whole: Any = None


def put_value(place: int, index: int, key: int, t: int, value: int) -> int:
    """Write a row for a PyTorch value, if it is a tensor. Returns its stamp, or 0."""
    tensor = load(value)
    if load(value + 8) & LOW_HALF != A_TENSOR or tensor == 0:
        return 0
    if place == RESULT and is_whole(tensor):
        return 0
    return put(place, index, key, t, 0, 0, 0, tensor)  # type: ignore[no-any-return]


def window_now(tensor: int) -> int:
    """A hash of a tensor's memory range, until the next hook of the program, which may write."""
    window = window_of(tensor)
    return 0 if window == 0 else window ^ (load(HOOKS) * 2654435761)


def learn(here: int, tensor: int, stamp: int, window: int) -> int:
    """Make this tensor KNOWN, with the row of this stamp."""
    store(KNOWN + here, tensor if stamp > 0 and window != 0 else 0)
    store(WINDOW + here, window)
    store(ROW_OF + here, stamp)
    store(FRESH + here, 1)
    return 0


def put_taken(value: int, number: int, t: int, here: int) -> int:
    """Write a row for the only gradient that a node receives."""
    tensor = load(value)
    if load(value + 8) & LOW_HALF != A_TENSOR or tensor == 0:
        return 0
    window, former = window_now(tensor), load(ROW_OF + here)
    if load(KNOWN + here) == tensor and load(WINDOW + here) == window and is_good(former):
        return learn(here, tensor, put_same(TAKEN, 0, number, t, former), window)
    return learn(here, tensor, put(TAKEN, 0, number, t, 0, 0, 0, tensor), window)


def run_begins(result: int, function: int) -> int:
    """Called when the function of a node begins."""
    store(result, 0)
    here = 8 * (thread() & LAST_THREAD)
    increase(DEPTH + here, 1)
    store(IN_LEAF + here, load(function + load(RUN_OFFSET)) == LEAF)
    count = increase(RUN_COUNT, 1)
    if count < RUNS:
        row = run_put_down(function, RUN_ROWS + count * RUN_ROW)
        store(result, row)
        number = increase(NUMBER, 1) + 1
        store(row + RUN_NUMBER, number)
        t = load(row + 8) * BILLION + load(row + 16)
        given, many, i = load(function + load(INPUTS)), load(function + load(INPUTS) + 8), 0
        if many == 1:
            put_taken(given, number, t, here)
            return result
        while i < many:
            put_value(TAKEN, i, number, t, given + VALUE * i)
            i += 1
    store(KNOWN + here, 0)
    return result


def looking_run_ends(function: int, row: int) -> int:
    """Called when it ended, normally or with an exception."""
    here = 8 * (thread() & LAST_THREAD)
    if load(DEPTH + here) > 0:
        increase(DEPTH + here, -1)
    store(IN_LEAF + here, 0)
    return run_ends(function, row)


def is_sum(function: int, here: int) -> int:
    """Whether the engine adds gradients with this call: between runs, or in the run of a leaf."""
    if load(function + load(VARIANT)) & 255 == NO_SCHEMA:
        return 0
    word = load(function + load(SCHEMA))
    if word != load(ADD) and word != load(ADD_IN_PLACE):
        return 0
    return load(IN_LEAF + here) != 0 or load(DEPTH + here) < load(INSIDE + here)


def is_wanted(function: int, here: int, deep: int) -> int:
    """Whether to record a call that can create no node, with `deep` calls running.

    This is the call that creates tensors from lists, arrays and files, and calls in hooks.
    """
    if load(function + load(VARIANT)) & 255 == NO_SCHEMA:
        return 0
    if load(INSIDE + here) > 0 and load(INSIDE + here) == load(ALLOWED + here):
        return load(DEEP + here) == deep
    schema = load(function + load(SCHEMA))
    return length_of(schema) == LONG and load(load(schema) + BEHIND_PREFIX) == LIFT_FRESH


def end_of(row: int) -> int:
    """The end of the call with this row."""
    return load(row + 24) * BILLION + load(row + 32)


def looking_begins(result: int, function: int) -> int:
    """Called when a call begins."""
    if load(IS_ON) and load(function + load(VARIANT)) & 255 != NO_SCHEMA:
        carrying_begins(function)
    row, here = call_begins(function), 8 * (thread() & LAST_THREAD)
    if row == 0 and is_wanted(function, here, 1):
        row = put_down(function, load(function + load(SCHEMA)))
    store(result, row)
    given = load(function + load(INPUTS))
    many = load(function + load(INPUTS) + 8)
    if many > 0:
        store(FRESH + here, 0)
        if load(given) != load(KNOWN + here):
            store(KNOWN + here, 0)
        if row != 0 and load(IN_LEAF + here) == 0 and is_sum(function, here):
            put_value(OPERAND, 0, load(row + 8), load(row + 16), given)
            put_value(OPERAND, 1, load(row + 8), load(row + 16), given + VALUE)
    elif load(function + load(VARIANT)) & 255 != NO_SCHEMA:  # otherwise the engine processes a node
        store(KNOWN + here, 0)
    return result


def looking_ends(function: int, row: int) -> int:
    """Called when it ended, normally or with an exception."""
    call_ends(function, row)
    if load(function + load(VARIANT)) & 255 == NO_SCHEMA:
        return row
    if load(IS_ON):
        carrying_ends(function)
    results, here = function + load(RESULTS), 8 * (thread() & LAST_THREAD)
    value, end = load(results), load(results + 8)
    if value == end:
        store(KNOWN + here, 0)
        return row
    wanted = row != 0 and (load(function + load(OFFSET)) >= 0 or is_wanted(function, here, 0))
    stamp = put_first(value, row if wanted else 0, here)
    if wanted:
        if stamp > 0 and is_bad(stamp):
            put_call(function, row)
        index = 1
        if value + VALUE == end and load(value + 8) & LOW_HALF == load(LIST):
            end = load(load(value) + load(IN_LIST) + 8)
            value, index = load(load(value) + load(IN_LIST)) - VALUE, 0
        value += VALUE
        while value < end:
            put_value(RESULT, index, load(row + 8), end_of(row), value)
            value += VALUE
            index += 1
    if row != 0 and is_sum(function, here):
        put_value(SUMMED, 0, load(row + 8), end_of(row), load(results))
    return row


def put_first(value: int, row: int, here: int) -> int:
    """Write a row for the first result of a call with a row. Returns the stamp if it is new.

    See Note [Known tensors].
    """
    tensor, known, former = load(value), load(KNOWN + here), load(ROW_OF + here)
    if load(value + 8) & LOW_HALF != A_TENSOR or tensor == 0:
        store(KNOWN + here, 0)
        return 0
    if is_whole(tensor):
        row = 0
    window = window_now(tensor) if known != 0 or row != 0 else 0
    same = known != 0 and (tensor != known or load(FRESH + here)) and window != 0
    if same and window == load(WINDOW + here) and is_good(former):
        if row != 0:
            former = put_same(RESULT, 0, load(row + 8), end_of(row), former)
        return learn(here, tensor, former, window)
    if row == 0:
        store(KNOWN + here, 0)
        return 0
    learn(here, tensor, put(RESULT, 0, load(row + 8), end_of(row), 0, 0, 0, tensor), window)
    return load(ROW_OF + here)


class CallbackAddresses(NamedTuple):
    """Addresses of callbacks around runs of nodes, and of those around calls."""

    runs: tuple[int, int]
    calls: tuple[int, int]


@cache
def around() -> CallbackAddresses:
    """The callbacks for this build. Raises NotObservable if it is not as expected."""
    global thread, put, put_same, is_good, is_bad, window_of, is_whole  # noqa: PLW0603 -- compiled code names them
    library, _ = calls._ready()
    thread, made = library.thread, ring.functions()
    put, put_same = made.external(ring.put), made.external(ring.put_same)
    is_bad = made.external(ring.is_bad)
    without_node.ready()
    is_good, window_of = made.external(ring.is_good), made.external(measure.window_of)
    is_whole = made.external(measure.is_whole)
    _state[0] = inputs_offset()
    _state[1] = results_offset()
    _state[3:5] = lists(int(_state[1]))
    carried.ready(*_state[[0, 1, 3, 4]].tolist())
    code = Compiled([run_begins, looking_run_ends, looking_begins, looking_ends])
    _kept.append(code)
    found = CallbackAddresses(
        (code.address(run_begins), code.address(looking_run_ends)),
        (code.address(looking_begins), code.address(looking_ends)),
    )
    _check(found)
    return found


_kept: list[Compiled] = []  # callbacks may be called until the process ends


MANY = [3, 1, 2, 1, 5, 1]
"""Number of inputs of the known nodes, in the order of their runs."""


def _program() -> None:
    """Run known nodes: see Note [No backward of ours] in watch/observer.py."""
    for many in MANY[::2]:
        with torch.enable_grad():
            node = torch.ones(many, 2, requires_grad=True).unbind(0)[0].grad_fn
        with torch.no_grad():
            grad = node(*(torch.full((2,), 5.0) for _ in range(many)))
            node.next_functions[0][0](grad)


@cache
def inputs_offset() -> int:
    """The offset in a RecordFunction of the address of a node's inputs, followed by their count.

    They are between the sequence number and the results. The caller's variables are on the stack
    after the RecordFunction, and may contain the same.
    """
    looks = looks_at(BACKWARD_FUNCTION, _program, given=True)
    places = [
        at
        for at in range(sequence_offset() // 8, results_offset() // 8)
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


def _check(found: CallbackAddresses) -> None:
    """Check that inputs of nodes and results of calls in a known program are read correctly."""
    library, _ = calls._ready()
    own = ring.Ring()
    handles = [
        library.observe(*found.runs, BACKWARD_FUNCTION, given=True),
        library.observe(*found.calls, FUNCTION, given=True, results=True),
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
    if said != EXPECTED:
        raise NotObservable("what calls return is not where it was expected")


def _known() -> None:
    with torch.enable_grad():
        x = torch.full((2,), 3.0, requires_grad=True)
        node, five, six = x.neg().grad_fn, torch.full((2,), 5.0), torch.full((2,), 6.0)
        grads: list[Any] = []
        calls.attended(lambda: grads.append(torch.add(five, six)))
        calls.attended(lambda: grads.append(node(grads[0])))
        calls.attended(lambda: node.next_functions[0][0](grads[1]))
        torch.arange(4.0, 6.0, requires_grad=True).unbind(0)


EXPECTED = {TAKEN: [11.0, -11.0], OPERAND: [5.0, 6.0], SUMMED: [11.0], RESULT: [-3.0, 4.0, 5.0]}
