"""Classifies stack frames: the program's, gradscope's, and those of gates."""

from __future__ import annotations

from types import FrameType
from typing import Any

TRACEBACK, PARENT = "traceback_", "parent_"
"""Keys of anomaly mode in a node's metadata, under PyTorch's names."""

WRITTEN = "<gradscope: "
"""Prefix of the file names of generated functions: `<gradscope: mul>`."""

RUNS_SCRIPTS = "gradscope.record.run_script"
"""The module below which no frame belongs to the script."""


def scripts_stack(innermost: FrameType | None) -> list[str]:
    """The stack up to this frame, without the frames that run a script for a recording."""
    import traceback

    frames = []
    for frame, line in traceback.walk_stack(innermost):
        if frame.f_globals.get("__name__") == RUNS_SCRIPTS:
            break
        frames.append((frame, line))
    return traceback.StackSummary.extract(reversed(frames)).format()


def outside(frame: FrameType | None) -> FrameType | None:
    """The nearest frame outside of the runtime."""
    while frame is not None and is_ours(frame):
        frame = frame.f_back
    return frame


def is_ours(frame: FrameType) -> bool:
    module = frame.f_globals.get("__name__", "")
    road = frame.f_code.co_filename.startswith(WRITTEN)
    return road or str(module).startswith(GRADSCOPES)


GRADSCOPES = ("gradscope.runtime", "gradscope.record.stops", "gradscope.errors")
"""Modules whose frames may be between the program and an operation."""

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
"""Parts of the runtime that are written in public operations, and count as the program's."""


def is_inside(frame: FrameType) -> bool:
    """Whether a frame belongs to the runtime, or to a watcher of gradscope."""
    name = frame.f_globals.get("__name__")
    if name is None:
        return frame.f_code.co_filename.startswith(WRITTEN)
    return name.startswith("gradscope.") and not name.startswith(OUTSIDE)


STAND_INS = "gradscope.record.acts"
"""The package of functions that replace others during a recording."""


def past_stand_ins(frame: FrameType | None) -> FrameType | None:
    """The calling frame, skipping that of a replaced function."""
    while frame is not None and str(frame.f_globals.get("__name__")).startswith(STAND_INS):
        frame = frame.f_back
    return frame


def stood_for(function: Any) -> Any:
    """The function that this one replaces during a recording; otherwise itself."""
    return getattr(function, "stands_for", function)


_GATE = ", through its gate>"
GATES = "gradscope.runtime.core.dispatch.overrides.gates"


def file_name(label: str) -> str:
    """The file name of the code in front of a public function. It counts as gradscope's."""
    return f"{WRITTEN}{label}{_GATE}"


def is_gate(frame: FrameType) -> bool:
    if frame.f_globals.get("__name__") == GATES:
        return True
    return frame.f_code.co_filename.endswith(_GATE)
