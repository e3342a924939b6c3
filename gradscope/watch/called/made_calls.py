"""The calls in a span of a thread that created nodes, in order.

# Note [Calls that create nodes]
A row holds the number that the next node of its thread would have when the call began. If the next
call, or the end of the span, finds a larger number, this call created the node: the innermost one
that was running, as a call around it has begun earlier with the same number.
"""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from gradscope.watch.called.call_rows import BEGIN, SEQUENCE, THREAD, WORD
from gradscope.watch.called.in_memory import name_at

if TYPE_CHECKING:
    from gradscope.machine_code.ring import Ints, Reader


class MadeCalls(NamedTuple):
    """Calls that created nodes: the words for their names, and when they began."""

    words: Ints
    begin: Ints

    def names(self) -> list[str]:
        """Their names; "": not known."""
        known = {word: _name(word) for word in np.unique(self.words).tolist()}
        return [known[word] for word in self.words.tolist()]


def made_since(reader: Reader, count: int) -> MadeCalls | None:
    """The calls of this thread since the ring had this many rows; None: some are overwritten."""
    rows, missing = reader.since(count)
    if missing:
        return None
    rows = rows[(rows[:, THREAD] == get_ident()) & (rows[:, SEQUENCE] >= 0)]
    numbers: Any = torch._C._autograd
    following = np.append(rows[1:, SEQUENCE], numbers._get_sequence_nr())
    rows = rows[following > rows[:, SEQUENCE]]
    return MadeCalls(rows[:, WORD].copy(), rows[:, BEGIN].copy())


def _name(word: int) -> str:
    if word < 0:  # a custom Function: libraries call some in the forward only
        return ""
    try:
        return name_at(word)[0].removeprefix("aten::")
    except (OSError, ValueError):
        return ""  # its library has been unloaded
