"""The stack of a place that was put down as code and instructions, when nobody could be asked."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from types import CodeType
from typing import TYPE_CHECKING

from gradscope.trace.schema import NONE

if TYPE_CHECKING:
    from gradscope.record.notes.sites import Sites

Instruction = tuple[CodeType, int]
"""Code, and how far into it."""


def stack_of(sites: Sites, frames: Sequence[Instruction]) -> tuple[int, Instruction | None]:
    """The stack of these frames, the innermost first, and which of them is the user's next."""
    users = [(code, offset) for code, offset in frames if not sites.is_ours(code)]
    sites._codes += [code for code, _ in frames]
    stack = NONE
    for code, offset in reversed(users if sites.whole else users[:1]):
        line = next(islice(code.co_positions(), offset // 2, None), (0,))[0] or 0
        frame = sites.position(code.co_filename, line, code.co_qualname, None)
        stack = sites._link(frame, stack)
    return stack, users[0] if users else None
