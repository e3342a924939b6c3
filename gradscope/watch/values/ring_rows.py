"""What a row of the ring holds; nothing here needs PyTorch, or compiles."""

from __future__ import annotations

STAMP, TIME, PLACE, INDEX, KEY, TENSOR, TASK, STEP, HEAD = range(9)
"""Before what a row says of the elements: when (ns), at which place, and of what.

KEY: the number of a call's row or of a run; of what Python looks at, of a node.
"""

COUNT, NAN, POSINF, NEGINF, ZERO, LOW, HIGH, SUM, SQUARES, IN_UNITS, BAD, MEASURED = range(12)
"""Behind it: how many elements, what machine_code/statistics.py adds to, whether that is in its
units, and the slot with the first bad places, plus one."""

TAKEN, OPERAND, SUMMED, RESULT, A_LEAF, AN_OPERAND, LOOKED = range(7)
"""Places: what the run of a node takes; what `add` is given, and returns; what another call
returns; leaves; what nodes keep that no node made; what Python looks at is LOOKED and more."""

VOID = -1
"""The place of a row that says nothing."""

CALL_STAMP, CALL, BEGIN, END, WORD, THREAD, LINE = range(7)
"""Of calls that made no node, and whose result is not finite: the number of the call's row, when it
began and ended, what names it, its thread, and where it was called (called/call_places.py)."""
