"""Events of a program that both engines, gradscope's own and PyTorch's, report."""

from __future__ import annotations

from collections.abc import Sequence
from types import FrameType
from typing import Any, Protocol

WORKS_FOR_ITSELF = "own work"
"""A span in which gradscope does its own work in the middle of the program."""


def is_nested(frame: FrameType, of: object = None) -> bool:
    """Whether the function of this frame is called from within another call of it.

    `of`: from within a call with this `self`, as `super().step()` in the `step` of an optimizer.
    """
    code, caller = frame.f_code, frame.f_back
    while caller is not None:
        if caller.f_code is code and (of is None or caller.f_locals.get("self") is of):
            return True
        caller = caller.f_back
    return False


class SummaryListener(Protocol):
    """Measures some steps, whether they are recorded or not."""

    measures: bool
    """Whether the optimizer of the current step is reported."""
    reads_loss: bool
    """Whether the outermost backwards of the current step are reported."""

    def roots(self, tensors: Sequence[Any]) -> None:
        """An outermost backward begins at these tensors."""

    def stepping(self, optimizer: Any) -> None:
        """An optimizer will write its parameters."""

    def stepped(self, optimizer: Any) -> None:
        """An optimizer has written its parameters."""


class ProgramListener(Protocol):
    """Receives modules, optimizer steps and named spans, each on its own thread."""

    def module_begins(self, module: Any) -> None:
        """The forward of a module begins."""

    def module_given(self, module: Any, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        """A module is called with these arguments. Reported on PyTorch, before it begins."""

    def module_ends(self) -> None:
        """The forward that began last ends."""

    def step_begins(self, optimizer: Any, suffix: str = "") -> None:
        """An optimizer will write its parameters. `suffix` follows its name in the span."""

    def step_written(self, optimizer: Any, frame: FrameType) -> None:
        """An optimizer has written its parameters, in a call on this frame."""

    def step_ends(self, *, nested: bool = False) -> None:
        """A step has ended, including its hooks. `nested`: it was a part of another one."""

    def span_begins(self, name: str, kind: str = "user") -> Any:
        """A span of time begins. Returns the argument of `span_ends`."""

    def span_ends(self, token: Any) -> None:
        """A span of time ends."""
