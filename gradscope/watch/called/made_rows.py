"""Columns of results that no node created. This file does not need PyTorch."""

from __future__ import annotations

CAPACITY = 1 << 13
COLUMNS = STAMP, END, WORD, THREAD, TENSOR, DATA, COUNTER, LINE = range(8)
"""WORD: address of the call's schema. TENSOR: address of the result. DATA: address of its memory.
COUNTER: address of its version counter. LINE: see call_places.py."""
