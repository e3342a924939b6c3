"""Finds the tensors in a list: calls like `split` return a single value, a list.

A list (`c10::List`) stores its values between two addresses. The offsets of these are not part of
an API: they are determined with a known call.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch

from gradscope.machine_code.language import Address, Compiled, load, store
from gradscope.watch.observer import FUNCTION, VALUE, NotObservable, ready

A_TENSOR = 1  # type tag of a c10::IValue
WORDS, MANY = 8, 5  # number of words of a list that are read; number of tensors in the known list

_state = np.zeros(4 + WORDS, np.int64)
RESULTS, WANTED, KIND, COPY = (Address(_state.ctypes.data, "known_list") + 8 * n for n in range(4))
LOW_HALF, END_OF_COPY = 0xFFFFFFFF, 8 * WORDS
thread: Any = None  # at::RecordFunction::currentThreadId


class Lists(NamedTuple):
    """The type tag of a list of tensors, and the offset of its two addresses."""

    kind: int
    begin: int


def list_begins(result: int, function: int) -> int:  # noqa: ARG001 -- what it is called with
    """Called when a call begins."""
    store(result, 0)
    return result


def list_ends(function: int, given: int) -> int:
    """Called when it ended: copy the result of the known call, if it is not a tensor."""
    results = function + load(RESULTS)
    value = load(results)
    if thread() != load(WANTED) or value == load(results + 8) or load(KIND) != 0:
        return given
    kind, at, i = load(value + 8) & LOW_HALF, load(value), 0
    if kind != A_TENSOR and at != 0:
        store(KIND, kind)
        while i < END_OF_COPY:
            store(COPY + i, load(at + i))
            i += 8
    return given


@cache
def lists(results: int) -> Lists:
    """The layout of lists. `results`: the offset of results in a RecordFunction."""
    global thread  # noqa: PLW0603 -- compiled code names it
    library = ready()
    thread = library.thread
    code = Compiled([list_begins, list_ends])
    _kept.append(code)
    known = torch.ones(MANY, 2)

    def look() -> None:
        _state[:] = 0
        _state[:2] = results, library.thread_here()
        begins, ends = code.address(list_begins), code.address(list_ends)
        handle = library.observe(begins, ends, FUNCTION, results=True)
        try:
            known.unbind(0)
        finally:
            library.remove(handle)

    with ThreadPoolExecutor(1) as apart:
        apart.submit(look).result()
    words = _state[3:].tolist()
    places = [
        at
        for at in range(WORDS - 1)
        if words[at] > 0 and words[at + 1] - words[at] == MANY * VALUE and not words[at] % 8
    ]
    if not _state[2] or len(places) != 1:
        raise NotObservable("what a list consists of is not where it was expected")
    return Lists(int(_state[2]), 8 * places[0])


_kept: list[Compiled] = []  # callbacks may be called until the process ends
