"""Lets machine code measure the part of a DTensor that this rank holds.

# Note [Parts of DTensors]
A DTensor has no memory of its own: its Python object holds the local tensor. Callbacks meet it
where PyTorch has just called Python for the same operation, so the interpreter lock is acquired in
the same order of locks as there. Python gets that object, reads attributes that are there, and
calls no operation. Machine code then measures the local tensor as any other, before it releases the
lock: until then no other thread can replace it.
"""

from __future__ import annotations

import ctypes
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from gradscope.machine_code.interpreter import call_one
from gradscope.machine_code.language import Address, load, store
from gradscope.watch.in_place.compilers import aside
from gradscope.watch.in_place.sharded import is_sharded, local_part, placements_of
from gradscope.watch.native.records import ensured, is_there, number_of, released, stays
from gradscope.watch.unseen import unseen
from gradscope.watch.values.devices.asked import ask, is_raising
from gradscope.watch.values.layout import WORDS, NotReadable, found
from gradscope.watch.values.measure import KEYS, PLACES, measure
from gradscope.watch.values.ring_rows import PART

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradscope.watch.in_place.faults import Faults

_state = stays(np.zeros(3, np.int64))
ASKED, PYTHON_KEY, OBJECT = (Address(_state.ctypes.data, "parts") + 8 * n for n in range(3))
"""The function that is asked, the dispatch key of wrappers, and where a tensor has its object."""
PART_AT, NUMBER_FROM, ADDRESS = 8 * PART, 48, (1 << 48) - 1
MOST = 1 << 14
"""Largest number of different parts; tensors with others are not measured."""
FAILED = "a part of a tensor was measured"


def is_wrapper(tensor: int) -> int:
    """Whether a tensor may be a DTensor."""
    return load(ASKED) != 0 and load(tensor + load(PLACES + KEYS)) & load(PYTHON_KEY) != 0


def object_of(tensor: int) -> int:
    """The address of the Python object of a tensor; 0: it has none."""
    word = load(tensor + load(OBJECT))
    return word - (word & 1)  # the lowest bit says who keeps the other alive


def measure_part(tensor: int, out: int) -> int:
    """Measure the local tensor of a DTensor, and store the number of its PART.

    Returns 1; 2: it is measured on its device; 0: it cannot be read.
    """
    function, done = load(ASKED), 0
    if is_wrapper(tensor) == 0 or is_there() == 0:
        return 0
    gil = ensured()
    own = object_of(tensor)
    if own != 0 and is_raising() == 0 and load(ASKED) == function:
        answer = number_of(call_one(function, own))
        if answer != 0:
            done = measure(answer & ADDRESS, out)
            if done == 0:
                done = 2 * ask(answer & ADDRESS, out)
            store(out + PART_AT, answer >> NUMBER_FROM)
    released(gil)
    return done


class PartOfTensor(NamedTuple):
    """The part of a DTensor that this rank holds."""

    local: tuple[int, ...]  # its shape
    placements: str
    bytes: int


class PartsOfTensors:
    """Answers machine code from `start` to `stop`. One per process may be started."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._numbers: dict[PartOfTensor, int] = {}
        self.known: list[PartOfTensor] = []
        """By PART, minus one."""
        self._keys_at = 8 * found().keys
        self._python_key, self._object_at = _state[1:] = _python_key(), _object_at()

    def start(self) -> None:
        """Start."""
        _state[0] = id(stays(partial(_answered, self)))

    def stop(self) -> None:
        """Stop."""
        _state[0] = 0

    def is_wrapper_at(self, address: int) -> bool:
        """Whether the tensor at an address may be a DTensor."""
        return bool(_word(address + self._keys_at) & self._python_key)

    def local_at(self, address: int) -> Any:
        """The local tensor of the DTensor at an address; None: it is none."""
        own = _word(address + self._object_at) & ~1
        tensor = ctypes.cast(own, ctypes.py_object).value if own else None
        return local_part(tensor) if is_sharded(tensor) else None

    def answer(self, tensor: Any) -> int:
        """The address of the local tensor and the number of its part, in one; 0: not a DTensor."""
        if not is_sharded(tensor):
            return 0
        with unseen():
            own = local_part(tensor)
            local = tuple(own.shape)
            part = PartOfTensor(local, placements_of(tensor), prod(local) * own.element_size())
            number = self._numbers.get(part)
            if number is None:
                if len(self.known) == MOST or any(type(size) is not int for size in local):
                    return 0
                self.known.append(part)
                number = self._numbers[part] = len(self.known)
            return int(own._cdata) | number << NUMBER_FROM


@aside
def _answered(parts: PartsOfTensors, tensor: Any) -> int:
    return parts._faults.guarded(FAILED, parts.answer, tensor) or 0


def _word(address: int) -> int:
    return int(ctypes.c_int64.from_address(address).value)


def _python_key() -> int:
    """The bit of the dispatch key of tensors whose operations call Python."""
    raw: Callable[[Any], int] | None = getattr(torch._C.DispatchKeySet, "raw_repr", None)
    if raw is None:  # in PyTorch 2.4
        raise NotReadable("dispatch keys are not shown")
    return raw(torch._C.DispatchKeySet(torch._C.DispatchKey.Python))


def _object_at() -> int:
    """The offset in a tensor of the address of its Python object."""
    known = [torch.ones(size) for size in (1, 2, 3)]
    words = [(ctypes.c_int64 * WORDS).from_address(each._cdata) for each in known]
    places = [
        at
        for at in range(WORDS)
        if all(row[at] & ~1 == id(each) for row, each in zip(words, known, strict=True))
    ]
    if len(places) != 1:
        raise NotReadable("the Python object of a tensor is not where it was expected")
    return 8 * places[0]
