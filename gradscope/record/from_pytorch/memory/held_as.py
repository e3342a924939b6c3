"""Where a dict of the program holds a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradscope.record.notes.local_names import variables_of
from gradscope.record.notes.sites import caller_of
from gradscope.watch.in_place.by_identity import is_a

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

MOST_FRAMES, MOST_KEYS = 2, 256


def held_as(tensor: Any, frame: FrameType | None, is_machinery: Callable[[CodeType], bool]) -> str:
    """As in "totals['depth']": the dict is a variable of a calling function; "": there is none."""
    left = MOST_FRAMES
    while frame is not None and left:
        if not is_machinery(frame.f_code):
            left -= 1
            for name, value in variables_of(frame).items():
                if is_a(value, dict) and not name.startswith("__"):
                    key = _key_of(tensor, value)
                    if key:
                        return f"{name}[{key!r}]"
        frame = caller_of(frame)
    return ""


def _key_of(tensor: Any, held: dict[Any, Any]) -> str:
    """The text under which a dict holds a tensor."""
    if not 1 < len(held) <= MOST_KEYS:
        return ""
    found = (key for key, each in list(dict.items(held)) if each is tensor and type(key) is str)
    return next(found, "")
