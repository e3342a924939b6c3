"""Columns of results that no node created. This file does not need PyTorch."""

from __future__ import annotations

CAPACITY = 1 << 13
COLUMNS = STAMP, END, WORD, THREAD, TENSOR, DATA, COUNTER, LINE, SIZE, HASH, FIRST, BYTES = range(
    12
)
"""WORD: address of the call's schema. TENSOR: address of the result. DATA: address of its memory.
COUNTER: address of its version counter. LINE: see call_places.py. Of random numbers that were
measured: SIZE of the first dim, HASH of the bits (0: not measured), address and number of bytes."""
