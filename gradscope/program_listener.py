"""What both engines, gradscope's own and PyTorch's, tell of the program that uses them."""

from __future__ import annotations

from types import FrameType
from typing import Any, Protocol

WORKS_FOR_ITSELF = "own work"
"""A span in which gradscope works for itself in the middle of the program."""


class ProgramListener(Protocol):
    """Hears of modules, steps of optimizers, and named spans of time, each on its own thread."""

    def module_begins(self, module: Any) -> None:
        """The forward of a module begins."""

    def module_ends(self) -> None:
        """The forward that began last ends."""

    def step_begins(self, optimizer: Any, suffix: str = "") -> None:
        """An optimizer is about to write its parameters. `suffix` follows its name in the span."""

    def step_written(self, optimizer: Any, frame: FrameType) -> None:
        """An optimizer has written its parameters, in a call on this frame."""

    def step_ends(self) -> None:
        """A step is over, with its hooks, also if it raised."""

    def span_begins(self, name: str, kind: str = "user") -> Any:
        """A span of time begins. Returns what `span_ends` takes."""

    def span_ends(self, token: Any) -> None:
        """A span of time ends."""
