"""Where a dict of the program holds a tensor, or in which round of a loop it is passed."""

from __future__ import annotations

import dis
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from gradscope.record.notes.local_names import variables_of
from gradscope.record.notes.sites import caller_of
from gradscope.watch.in_place.by_identity import is_a

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

MOST_FRAMES, MOST_KEYS = 2, 256
LONGEST, STORES = 40, "STORE_"
MOST_ROUNDS = 1_000


def held_as(tensor: Any, frame: FrameType | None, is_machinery: Callable[[CodeType], bool]) -> str:
    """As in "totals['depth']": the dict is a variable of a calling function.

    Else the variable of the innermost loop around the call, if it has a text or a small number, as
    in "name = 'depth'"; "": there is none. A trace keeps each text, so that numbers of steps would
    let it grow.
    """
    left, looped = MOST_FRAMES, ""
    while frame is not None and left:
        if not is_machinery(frame.f_code):
            left -= 1
            variables = variables_of(frame)
            looped = looped or _round_of(frame, variables)
            for name, value in variables.items():
                if is_a(value, dict) and not name.startswith("__"):
                    key = _key_of(tensor, value)
                    if key:
                        return f"{name}[{key!r}]"
        frame = caller_of(frame)
    return looped


def _round_of(frame: FrameType, variables: dict[str, Any]) -> str:
    """The variable of the innermost loop that has a text or a small number now."""
    for first, last, name in _loops(frame.f_code):
        value = variables.get(name)
        is_small = type(value) is int and 0 <= value < MOST_ROUNDS
        if first <= frame.f_lasti < last and (is_small or type(value) is str):
            shown = f"{name} = {value!r}"
            return shown if len(shown) <= LONGEST else ""
    return ""


@lru_cache(maxsize=256)
def _loops(code: CodeType) -> tuple[tuple[int, int, str], ...]:
    """The `for` loops of a code, the innermost first: where they begin and end, the variable."""
    found = [
        (loop.offset, loop.argval, store.argval[0] if is_a(store.argval, tuple) else store.argval)
        for loop, store in pairwise(dis.get_instructions(code))
        if loop.opname == "FOR_ITER" and store.opname.startswith(STORES)
    ]
    return tuple(sorted(found, key=lambda each: each[1] - each[0]))


def _key_of(tensor: Any, held: dict[Any, Any]) -> str:
    """The text under which a dict holds a tensor."""
    if not 1 < len(held) <= MOST_KEYS:
        return ""
    found = (key for key, each in list(dict.items(held)) if each is tensor and type(key) is str)
    return next(found, "")
