"""Records the addresses of arguments and results of each call, at level `full`.

# Note [Identity of a tensor]
No reference is held and no object created for an operand, so only its address is known; after it is
freed, another tensor may have the same address. Which tensor it was is inferred from the order of
calls (record/from_pytorch/called/identities.py).
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import torch

from gradscope.machine_code.language import Address, increase, load, store
from gradscope.machine_code.ring import Reader
from gradscope.watch.called.call_rows import Ints
from gradscope.watch.called.operand_rows import (
    A_LEAF,
    CAPACITY,
    DIMS,
    DIMS_FROM,
    FIRST,
    NOT_PLAIN,
    SIZES,
    STAMP,
    WIDTH,
)
from gradscope.watch.native.saved_layout import saved_layout
from gradscope.watch.values.layout import INLINE

_rows = np.zeros((CAPACITY, WIDTH), np.int64)
_state = np.zeros(24, np.int64)
ROWS, MASK, ROW = Address(_rows.ctypes.data, "operands"), CAPACITY - 1, 8 * WIDTH
COUNT = Address(_state.ctypes.data, "state_of_operands")
(NOBODY, HISTORY, NODE, NEEDS, NEEDS_SHIFT, OUTPUT, OUTPUT_SHIFT, AT_SIZES, AT_KEYS, PLAIN, DTYPE,
 DTYPE_SHIFT, AT_STORAGE, AT_DATA, AT_BYTES, AT_COUNTER, AT_VERSION, VERSION_SHIFT, AT_NUMBER,
 IS_NUMBER) = (
    COUNT + 8 * n for n in range(1, 21)
)  # fmt: skip
LEAF, FIRST_OUTPUT, INLINED, MOST_DIMS, DIMS_AT = A_LEAF, FIRST, INLINE, DIMS, DIMS_FROM
UNUSUAL, FIRST_SIZE, LOW_HALF = NOT_PLAIN, 8 * SIZES, 0xFFFFFFFF

DTYPES = (
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64",
    "complex128", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64", "bool",
)  # fmt: skip
"""Dtypes that can be recognized. Creating a tensor of another one warns."""


def put_operand(call: int, at: int, tensor: int) -> int:
    """Write the row of a tensor. Its stamp is written last, so that readers see complete rows."""
    if tensor == 0 or tensor == load(NOBODY) or load(tensor + load(AT_NUMBER)) & load(IS_NUMBER):
        return 0
    storage, counter = load(tensor + load(AT_STORAGE)), load(tensor + load(AT_COUNTER))
    count = increase(COUNT, 1)
    row = ROWS + (count & MASK) * ROW
    store(row, 0)
    store(row + 8, call)
    store(row + 16, at)
    store(row + 24, tensor)
    store(row + 32, storage)
    store(row + 40, 0)
    store(row + 80, 0)
    if storage != 0:
        store(row + 40, load(storage + load(AT_DATA)))
        store(row + 80, load(storage + load(AT_BYTES)))
    store(row + 48, counter)
    store(row + 56, 0)
    if counter != 0:
        store(row + 56, (load(counter + load(AT_VERSION)) >> load(VERSION_SHIFT)) & LOW_HALF)
    store(row + 64, put_sizes(tensor, row + FIRST_SIZE))
    store(row + 72, made_by(tensor))
    store(row, count + 1)
    return row


def put_sizes(tensor: int, to: int) -> int:
    """Write the sizes, the dtype and the number of dims."""
    i = 0
    while i < MOST_DIMS:
        store(to + 8 * i, 0)
        i += 1
    kind = (load(tensor + load(DTYPE)) >> load(DTYPE_SHIFT)) & 0xFFFF
    if load(tensor + load(AT_KEYS)) != load(PLAIN):
        return kind + UNUSUAL
    dims, i = load(tensor + load(AT_SIZES)), 0
    sizes = tensor + load(AT_SIZES) + 8
    if dims > INLINED:
        sizes = load(sizes)
    while i < dims and i < MOST_DIMS:
        store(to + 8 * i, load(sizes + 8 * i))
        i += 1
    return kind + dims * DIMS_AT


def made_by(tensor: int) -> int:
    """The value of column NODE."""
    history = load(tensor + load(HISTORY))
    if history == 0:
        return 0
    if load(history + load(NODE)) != 0:
        return ((load(history + load(OUTPUT)) >> load(OUTPUT_SHIFT)) & LOW_HALF) + FIRST_OUTPUT
    return LEAF if (load(history + load(NEEDS)) >> load(NEEDS_SHIFT)) & 255 else 0


class OperandObserver:
    """Reads rows of operands; one per recording.

    `number`: the location of the bit that marks a tensor as a number: these are skipped.
    """

    def __init__(self, number: tuple[int, int]) -> None:
        found = saved_layout()
        plain = found.plain
        _state[1:21] = (
            found.undefined, found.history, found.node, found.needs.word, found.needs.shift,
            found.output.word, found.output.shift, 8 * plain.sizes, 8 * plain.keys, plain.plain,
            8 * (plain.dtype // 4), 16 * (plain.dtype % 4), 8 * plain.storage, 8 * plain.data,
            8 * plain.bytes, found.counter, found.version.word, found.version.shift, *number,
        )  # fmt: skip
        self.kinds = _kinds(plain.dtype)
        """The dtype for each value of KIND."""
        self._reader = Reader(_rows, _state, STAMP)

    def waiting(self) -> int:
        """The number of unread rows; the last CAPACITY rows are stored."""
        return self._reader.waiting()

    def read(self) -> tuple[Ints, int]:
        """The operands since the last reading, and the number of lost rows."""
        return self._reader.read()


def _kinds(at: int) -> dict[int, Any]:
    """Dtypes by their code in tensors; `at`: location of the code, in quarters of words."""
    found = {}
    for name in DTYPES:
        tensor = torch.empty(0, dtype=getattr(torch, name))
        found[int(ctypes.c_uint16.from_address(tensor._cdata + 2 * at).value)] = tensor.dtype
    return found
