"""Columns of arguments and results of calls. This file does not need PyTorch."""

from __future__ import annotations

CAPACITY = 1 << 18
DIMS = 8
"""Number of dims whose sizes are stored."""

COLUMNS = STAMP, CALL, AT, TENSOR, STORAGE, DATA, COUNTER, VERSION, KIND, NODE, BYTES, SIZES = (
    range(12)
)
"""CALL: the stamp of the call's row. AT: the index of an argument; results are counted from -1
down. TENSOR, STORAGE, DATA, COUNTER: addresses of the tensor, its storage, its memory and its
version counter. VERSION: its version. KIND: the dtype, and above it the number of dims; NOT_PLAIN:
unknown. NODE: 0: no node and no gradient needed; 1: a leaf that requires grad; otherwise a node
created it, and NODE - 2 is the input that receives its gradient. BYTES: size of the storage. SIZES:
the first sizes."""

WIDTH = len(COLUMNS) - 1 + DIMS
DIMS_FROM, NOT_PLAIN, A_LEAF, FIRST = 1 << 16, 1 << 40, 1, 2
