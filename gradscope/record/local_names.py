"""What the user's code calls a tensor."""

from __future__ import annotations

from types import FrameType
from typing import Any

from gradscope.record.sites import is_ours


def local_name(tensor: Any, frame: FrameType | None) -> str:
    """The name of a leaf, where it is a variable of the function that called or of its module."""
    while frame is not None and is_ours(frame.f_code):
        frame = frame.f_back
    if frame is None or not tensor.is_leaf:
        return ""
    for scope in (frame.f_locals, frame.f_globals):
        for name, value in list(scope.items()):
            if value is tensor:
                return name
    return ""
