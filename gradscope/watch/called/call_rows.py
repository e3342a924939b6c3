"""Columns and kinds of the rows written by the observer of calls."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

HELD, STAMP, BEGIN, END, NANOSECONDS, WORD, SEQUENCE, THREAD = range(8)
"""HELD: see Note [What a run holds] in watch/observer.py. END and NANOSECONDS: the end in seconds
and the remainder; 0 while the call is running. WORD: the address of the schema; if negative, the
call has none, and this is the beginning of its text."""

TEXT, NO_TEXT = -0x8000000000000000, 0x7FFFFFFFFFFFFFFF

EVALUATE = int.from_bytes(b"autograd", "little") + TEXT
"""Beginning of the text of `autograd::engine::evaluate_function`: the engine processes a node."""

NO_LINE = 0
"""Used instead of a place: it was not requested, or there is none."""

GRADIENTS = ("add", "add_", "detach", "clone", "new_empty_strided", "_sparse_coo_tensor_unsafe")
ADD, ADD_IN_PLACE, DETACH, CLONE, NEW_EMPTY, NEW_SPARSE = range(len(GRADIENTS))
"""Functions that PyTorch calls to add and store gradients, in addition to those that nodes call."""


class CalledRead(NamedTuple):
    """Rows that were written since the last reading."""

    rows: Ints
    lost: int
