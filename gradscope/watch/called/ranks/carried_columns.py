"""Columns of calls that read what a collective has written. This file does not need PyTorch."""

from __future__ import annotations

CAPACITY = 1 << 12
COLUMNS = STAMP, END, WORD, THREAD, LINE, FIRST, MANY, GRAPHS, READ = range(9)
"""WORD: address of the call's schema. FIRST: sequence number of the first node that it created,
MANY: how many it created. READ: the first of MOST_READ marks. GRAPHS: a bit for each of these, set
if the argument has a graph."""

MOST_READ, MOST_GIVEN = 4, 8
"""Number of marks, and of arguments, that are stored of a call."""

WIDTH = READ + MOST_READ
