"""NumPy's loops over elements, many of them in one call.

# Note [Loops without NumPy around them]
NumPy takes 300 to 500 nanoseconds to add 64 numbers: it checks types and shapes, allocates an
array, checks for shared memory. The loop over the numbers takes ten. If all that is known in
advance, only loops remain: a ufunc has them in its C structure, which NumPy's headers describe
(`PyUFuncObject`), matrix products among them. So the results are NumPy's, bit by bit. A list of
words defines the loops and their arrays, and a compiled function calls them. It holds Python's lock
meanwhile, so this is for small arrays.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from gradscope.machine_code.callables import FAST, Callables
from gradscope.machine_code.interpreter import as_int, from_int
from gradscope.machine_code.language import invoke, load, store

DATA = object.__basicsize__
"""Offset of the data pointer in an array object, after the object header."""
SCRATCH = 32
"""Bytes at the beginning of the first array, for the addresses passed to a loop."""
ARRAYS, DIMS, STEPS = 3, 4, 9
FUNCTION, EXTRA, OF, BEHIND, SIZES, FAR = 0, 8, 16, 40, 64, 96
ROW = FAR + 8 * STEPS
"""The words of a call in bytes: loop, its data, arrays, offsets, sizes, distances."""


class LoopCall(NamedTuple):
    """One loop: its address and data, the arrays, the number of elements, their distances.

    An array is the index of an argument and an offset in bytes.
    """

    loop: tuple[int, int]
    arrays: tuple[tuple[int, int], ...]
    dims: tuple[int, ...]
    steps: tuple[int, ...]


class _Words:
    """The arguments of the function for some calls: its end, then one row for each."""

    def __init__(self, calls: Sequence[LoopCall]) -> None:
        self.words = np.zeros(1 + len(calls) * ROW // 8, np.int64)
        self.words[0] = self.words.ctypes.data + self.words.nbytes
        rows = self.words[1:].reshape(len(calls), ROW // 8)
        for row, call in zip(rows, calls, strict=True):
            row[:2] = call.loop
            for nr, (of, behind) in enumerate(call.arrays):
                row[OF // 8 + nr], row[BEHIND // 8 + nr] = 8 * of, behind
            row[SIZES // 8 :][: len(call.dims)] = call.dims
            row[FAR // 8 :][: len(call.steps)] = call.steps


def play(self: int, given: int, count: int) -> int:
    """Call each loop on the given arrays. The first array begins with scratch space."""
    at = as_int(self)
    end, scratch = load(at), load(load(given) + DATA)
    at += 8
    while at < end:
        store(scratch, load(load(given + load(at + OF)) + DATA) + load(at + BEHIND))
        store(scratch + 8, load(load(given + load(at + OF + 8)) + DATA) + load(at + BEHIND + 8))
        store(scratch + 16, load(load(given + load(at + OF + 16)) + DATA) + load(at + BEHIND + 16))
        invoke(load(at + FUNCTION), scratch, at + SIZES, at + FAR, load(at + EXTRA))
        at += ROW
    return from_int(0)


@cache
def _callables() -> Callables:
    return Callables({play: FAST})


def player(calls: Sequence[LoopCall]) -> Callable[..., Any]:
    """A function of arrays that calls these loops. The first array provides SCRATCH bytes."""
    played: Callable[..., Any] = _callables().over(play, _Words(calls))
    return played


class _Ufunc(ctypes.Structure):
    """PyUFuncObject, after the object header."""

    _fields_ = (
        ("inputs", ctypes.c_int),
        ("outputs", ctypes.c_int),
        ("arguments", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("count", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("name", ctypes.c_char_p),
    )


@cache
def loop_of(ufunc: np.ufunc, kinds: str) -> tuple[int, int] | None:
    """The loop over elements of these kinds ("ff->f"), and its data; None if there is none."""
    if not _is_as_described() or kinds not in ufunc.types:
        return None
    made = _Ufunc.from_address(id(ufunc) + DATA)
    if (made.inputs, made.outputs, made.count) != (ufunc.nin, ufunc.nout, ufunc.ntypes):
        return None
    nr = ufunc.types.index(kinds)
    return made.functions[nr] or 0, (made.data[nr] or 0) if made.data else 0


@cache
def _is_as_described() -> bool:
    """Whether objects of this NumPy and Python have the expected layout."""
    array = np.zeros(3)
    there = ctypes.c_void_p.from_address(id(array) + DATA).value == array.ctypes.data
    return there and _Ufunc.from_address(id(np.add) + DATA).name == b"add"
