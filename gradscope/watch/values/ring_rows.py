"""Columns of the rows of the ring. This file does not need PyTorch and compiles nothing."""

from __future__ import annotations

STAMP, TIME, PLACE, INDEX, KEY, TENSOR, TASK, STEP, HEAD = range(9)
"""The first columns of a row: time in ns, place, and identity.

KEY: the number of a call's row or of a run; for values measured from Python, of a node.
"""

COUNT, NAN, POSINF, NEGINF, ZERO, LOW, HIGH, SUM, SQUARES, IN_UNITS, BAD, PART, MEASURED = range(13)
"""The next columns: number of elements, the sums of machine_code/statistics.py, whether these are
in its units, the slot with the first bad indices, plus one, and for a DTensor the number of this
rank's part (divided.py)."""

ON_DEVICE = 2
"""IN_UNITS of a tensor that is measured on its device: NAN is then the number of the look."""

TAKEN, OPERAND, SUMMED, RESULT, A_LEAF, AN_OPERAND, LOOKED = range(7)
"""Places: input of a node's run; operands and result of `add`; result of another call; leaf; saved
value that no node created; values measured from Python have LOOKED plus their place."""

VOID = -1
"""The place of an invalid row."""

CALL_STAMP, CALL, BEGIN, END, WORD, THREAD, LINE = range(7)
"""Columns of calls without a node whose result is not finite: the number of the call's row, begin,
end, name, thread, and calling place (called/call_places.py)."""
