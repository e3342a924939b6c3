"""Which frames of the stack are those of gates, which stand between a call and its function."""

from __future__ import annotations

from sys import _getframe
from types import FrameType

HOME = "gradscope.runtime.core.dispatch.overrides.gates"


def file_name(label: str) -> str:
    """What the code before a public function is said to be from; it counts among the roads."""
    return f"<road of {label}, through its gate>"


def is_gate(frame: FrameType) -> bool:
    if frame.f_globals.get("__name__") == HOME:
        return True
    return frame.f_code.co_filename.endswith(", through its gate>")


def above_gates(level: int) -> int:
    """The stacklevel of the `level`-th frame, counted from the caller's own, without gates."""
    frame: FrameType | None = _getframe(1)
    found, left = 1, level
    while left > 1 and frame is not None and frame.f_back is not None:
        frame, found = frame.f_back, found + 1
        left -= not is_gate(frame)
    return found
