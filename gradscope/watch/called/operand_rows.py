"""What the observer puts down of what calls are given and return; nothing here needs PyTorch."""

from __future__ import annotations

CAPACITY = 1 << 18
DIMS = 8
"""Sizes of so many dims are put down."""

COLUMNS = STAMP, CALL, AT, TENSOR, STORAGE, DATA, COUNTER, VERSION, KIND, NODE, BYTES, SIZES = (
    range(12)
)
"""CALL: the stamp of the call's row. AT: which tensor that it was given it is; or of those that it
returned, counted from -1 down. TENSOR, STORAGE, DATA, COUNTER: where it lies, its memory, where
that begins, and what counts writes to it; VERSION: how many there were. KIND: what the elements
are; above that how many dims there are; NOT_PLAIN: how many is not known. NODE: 0: there is none,
and it needs no gradient; 1: it is a leaf that needs one; else a node made it, and is given its
gradient as input number NODE - 2. BYTES: of the memory. SIZES: the first of them."""

WIDTH = len(COLUMNS) - 1 + DIMS
DIMS_FROM, NOT_PLAIN, A_LEAF, FIRST = 1 << 16, 1 << 40, 1, 2
