"""Columns of in-place writes. This file does not need PyTorch."""

from __future__ import annotations

CAPACITY = 1 << 13
COLUMNS = STAMP, BEGIN, END, WORD, SEQUENCE, THREAD, STORAGE, DATA, COUNTER, VERSION, LINE, MADE = (
    range(12)
)
"""WORD: address of the schema. STORAGE, DATA: addresses of the storage and memory of the written
tensor. COUNTER: address of its version counter, VERSION: the version after the write. LINE: see
call_places.py. MADE: 1 if the call created a node."""
