"""What the constructor of each of PyTorch's nodes calls, as a C function.

See Note [Numbers without objects] in record/notes/c_functions/functions.py, and Note [Anomaly mode]
in watch/creation.py. It makes the object that a node keeps (`Made`), for the line and the place its
thread is at, without the interpreter. Whatever is not as usual is left to its twin in Python.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.machine_code.callables import NONE, ONE, Callables, offset
from gradscope.machine_code.interpreter import (
    PYTHON,
    as_int,
    call_nothing,
    clock,
    drop,
    from_int,
    item,
    keep,
)
from gradscope.machine_code.language import External, load, store
from gradscope.record.from_pytorch.threads import State
from gradscope.record.notes.c_functions.functions import UNKNOWN, found, number
from gradscope.record.notes.c_functions.parts import Counter
from gradscope.watch.listener import Made

if TYPE_CHECKING:
    from gradscope.record.notes.sites import Sites

thread_state = External(PYTHON, "PyThreadState_Get", 0)
number_of_thread = External(PYTHON, "PyThreadState_GetID", 1)
frame_here = External(PYTHON, "PyEval_GetFrame", 0)
allocated = External(PYTHON, "PyType_GenericAlloc", 2)
uncollected = External(PYTHON, "PyObject_GC_UnTrack", 1, nothing=True)

# The places of a maker's words. Thread: that whose state is known; threads' numbers never come
# again, so that a state that is gone is never looked at.
TABLE, COUNTER, KIND, RECORDING, THREAD, STATE = range(0, 48, 8)
GLOBALS, PRESERVES, FALSE, ASK, PLACE, CLOCK, SCRATCH = range(48, 104, 8)  # SCRATCH takes two
CONTEXT_IN_STATE = offset(State, "context")
OF_RECORDING, NUMBER, CONTEXT = (offset(Made, n) for n in ("recording", "number", "context"))
SITE, TIME, TOPOLOGICAL = (offset(Made, n) for n in ("site", "t", "topological"))


def made(self: int, nothing: int) -> int:
    maker = as_int(self)
    if item(load(maker + GLOBALS), load(maker + PRESERVES)) != load(maker + FALSE):
        return call_nothing(load(maker + ASK))
    if number_of_thread(thread_state()) != load(maker + THREAD):
        return call_nothing(load(maker + ASK))
    state = load(maker + STATE)
    if as_int(load(state + CONTEXT_IN_STATE)) == 0:
        answer = call_nothing(load(maker + PLACE))  # its thread has moved
        if answer == 0:
            return 0
        drop(answer)
        if as_int(load(state + CONTEXT_IN_STATE)) == 0:
            return call_nothing(load(maker + ASK))
    context = load(state + CONTEXT_IN_STATE)
    frame = frame_here()
    if frame == 0:
        return call_nothing(load(maker + ASK))
    site = found(load(maker + TABLE), frame)
    if site == UNKNOWN:
        return call_nothing(load(maker + ASK))
    made = allocated(load(maker + KIND), 0)
    if made == 0:
        return 0
    uncollected(made)  # it holds numbers
    counter, recording = load(maker + COUNTER), load(maker + RECORDING)
    number = load(counter)
    store(counter, number + 2)
    keep(recording)
    keep(context)
    store(made + OF_RECORDING, recording)
    store(made + NUMBER, from_int(number))
    store(made + CONTEXT, context)
    store(made + TOPOLOGICAL, from_int(-1))
    store(made + SITE, from_int(site))
    store(made + TIME, from_int(clock(maker + SCRATCH, load(maker + CLOCK))))
    return made


def here(self: int, state: int) -> int:
    """The calling thread's state is this."""
    maker = as_int(self)
    store(maker + THREAD, number_of_thread(thread_state()))
    store(maker + STATE, state)
    keep(load(maker + FALSE))
    return load(maker + FALSE)


class Maker:
    """Makes what nodes keep, for one recording."""

    def __init__(
        self,
        sites: Sites,
        recording: object,
        first: tuple[int, int],
        otherwise: Callable[[], Any],
        moved: Callable[[], Any],
        unless: tuple[dict[str, Any], str],
    ) -> None:
        functions = _functions()
        self._table = sites.compile(functions)
        self._counter = Counter(functions)
        self._counter.renew(first[0], 1 << 62)
        self.others = Counter(functions)
        self.others.renew(first[1], 1 << 62)
        self._kept = (recording, otherwise, moved, unless)  # the words hold addresses
        self.words = np.zeros(16, np.int64)
        places = {
            TABLE: self._table.words.ctypes.data, COUNTER: self._counter.words.ctypes.data,
            KIND: id(Made), RECORDING: id(recording), GLOBALS: id(unless[0]),
            PRESERVES: id(unless[1]), FALSE: id(False), ASK: id(otherwise),
            PLACE: id(moved),
            CLOCK: id(time.perf_counter_ns),
        }  # fmt: skip
        for place, word in places.items():
            self.words[place // 8] = word
        self.number = self._counter.next
        self.made = functions.over(made, self)
        self.here = functions.over(here, self)

    def finish(self) -> None:
        """Let go of the callables, which hold this."""
        del self.made, self.here


@cache
def _functions() -> Callables:
    return Callables({made: NONE, here: ONE, number: NONE})
