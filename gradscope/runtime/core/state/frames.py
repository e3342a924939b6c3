"""Which frames of the stack are the program's, which are ours, and which are gates'."""

from __future__ import annotations

from types import FrameType
from typing import Any

TRACEBACK, PARENT = "traceback_", "parent_"
"""Where anomaly mode writes into a node's metadata, under PyTorch's names."""

WRITTEN = "<gradscope: "
"""How the names of files begin that show functions written as text: `<gradscope: mul>`."""

RUNS_SCRIPTS = "gradscope.record.run_script"
"""The module below which no frame is the script's."""


def scripts_stack(innermost: FrameType | None) -> list[str]:
    """The calls that led to this frame, without those that ran the script for a recording."""
    import traceback

    frames = []
    for frame, line in traceback.walk_stack(innermost):
        if frame.f_globals.get("__name__") == RUNS_SCRIPTS:
            break
        frames.append((frame, line))
    return traceback.StackSummary.extract(reversed(frames)).format()


def outside(frame: FrameType | None) -> FrameType | None:
    """The nearest frame that is not the runtime's own."""
    while frame is not None and is_ours(frame):
        frame = frame.f_back
    return frame


def is_ours(frame: FrameType) -> bool:
    module = frame.f_globals.get("__name__", "")
    road = frame.f_code.co_filename.startswith(WRITTEN)
    return road or str(module).startswith(GRADSCOPES)


GRADSCOPES = ("gradscope.runtime", "gradscope.record.stops", "gradscope.errors")
"""The modules whose frames may stand between the program and an operation."""

OUTSIDE = tuple(
    f"gradscope.runtime.{part}"
    for part in (
        "autograd.functional",
        "autograd.gradcheck",
        "core.autograd.modes.grad_mode",
        "core.tensors.tensor.overriding",
        "core.tensors.tensor.values",
        "distributions",
        "nn.",
        "optim.",
        "overrides",
        "utils.",
    )
)
"""Parts of the runtime that are written in what users see."""


def is_inside(frame: FrameType) -> bool:
    """Whether a frame is one of the runtime's own parts, or of a watcher of ours."""
    name = frame.f_globals.get("__name__")
    if name is None:
        return frame.f_code.co_filename.startswith(WRITTEN)
    return name.startswith("gradscope.") and not name.startswith(OUTSIDE)


STAND_INS = "gradscope.record.acts"
"""Where functions are that stand in for others while a program is recorded."""


def past_stand_ins(frame: FrameType | None) -> FrameType | None:
    """The frame that called, where a stand-in was called first."""
    while frame is not None and str(frame.f_globals.get("__name__")).startswith(STAND_INS):
        frame = frame.f_back
    return frame


def stood_for(function: Any) -> Any:
    """The function that this one stands in for while a program is recorded; else itself."""
    return getattr(function, "stands_for", function)


_GATE = ", through its gate>"
GATES = "gradscope.runtime.core.dispatch.overrides.gates"


def file_name(label: str) -> str:
    """What the code before a public function is said to be from; it counts as ours."""
    return f"{WRITTEN}{label}{_GATE}"


def is_gate(frame: FrameType) -> bool:
    if frame.f_globals.get("__name__") == GATES:
        return True
    return frame.f_code.co_filename.endswith(_GATE)
