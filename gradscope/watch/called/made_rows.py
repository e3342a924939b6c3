"""What the observer puts down of a result that no node made; nothing here needs PyTorch."""

from __future__ import annotations

CAPACITY = 1 << 13
COLUMNS = STAMP, END, WORD, THREAD, TENSOR, DATA, COUNTER, LINE = range(8)
"""WORD: the address of its call's schema. TENSOR: the result's address. DATA, COUNTER: of its
memory, and of what counts writes to it. LINE: see places.py."""
