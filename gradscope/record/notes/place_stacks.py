"""Stacks of places that machine code recorded as code objects and instructions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from types import CodeType
from typing import TYPE_CHECKING

from gradscope.trace.schema import NONE

if TYPE_CHECKING:
    from gradscope.record.notes.sites import Sites

Instruction = tuple[CodeType, int]
"""A code object and an offset in it."""


def stack_of(sites: Sites, frames: Sequence[Instruction]) -> tuple[int, Instruction | None]:
    """The stack of these frames, innermost first, and the index of the next user frame."""
    users = [(code, offset) for code, offset in frames if not sites.is_ours(code)]
    sites._codes += [code for code, _ in frames]
    stack = NONE
    for code, offset in reversed(users if sites.whole else users[:1]):
        line = next(islice(code.co_positions(), offset // 2, None), (0,))[0] or 0
        frame = sites.position(code.co_filename, line, code.co_qualname, None)
        stack = sites._link(frame, stack)
    return stack, users[0] if users else None
