"""What the observer puts down of a write in place; nothing here needs PyTorch."""

from __future__ import annotations

CAPACITY = 1 << 13
COLUMNS = STAMP, BEGIN, END, WORD, SEQUENCE, THREAD, STORAGE, DATA, COUNTER, VERSION, LINE, MADE = (
    range(12)
)
"""WORD: the address of its schema. STORAGE, DATA: of what was written to, and where its numbers
are. COUNTER: what counts writes to it, and VERSION what it says by then. LINE: see places.py.
MADE: 1 if the call made a node."""
