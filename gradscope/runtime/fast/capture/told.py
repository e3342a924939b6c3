"""What a watcher that can be told of replays has, and how a captured step tells it.

# Note [A replay is reported like the step]
In a replay nothing tells of calls and nodes: there are none. So while a step is recorded, a watcher
keeps what it is told of that one eager run, its *template*, beside the plan. Of each replay it is
told which tensors were there and which are new, and when each piece of the plan began and ended;
from these it makes what the step would have told, with other numbers and the times of the pieces.
Of a watcher that has not seen the step yet the plan is recorded once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gradscope.runtime.core.tensors.tensor.tensor import Tensor


@dataclass(frozen=True, slots=True)
class ReplayRun:
    """Of which step, by which plan, and between which times which pieces of it ran."""

    captured: Any
    plan: Any
    timed: Any


class Told(Protocol):
    """Who is told of replays."""

    over: bool  # nothing is recorded any more
    reason: str  # why no replays can be told; "": they can

    def open(self, tensors: Sequence[Any]) -> Any:
        """A step is about to run, and to be recorded as a plan, that can reach these tensors."""

    def close(self, window: Any) -> None:
        """It has run."""

    def template(self, window: Any, results: Sequence[Any], calls: Sequence[Any]) -> Any:
        """What was told meanwhile; None: a replay cannot be told so.

        `results`: tensors that the step returned. `calls`: of its plan, with their times.
        """

    def begin(self, template: Any, tensors: Sequence[Any]) -> Any:
        """A replay is about to begin, with these instead of the tensors of `open`."""

    def end(self, replay: Any, results: Sequence[Any], run: ReplayRun) -> None:
        """It is over."""

    def met(self, captured: Any) -> None:
        """A captured step is called, or a piece of one."""


def tensors_in(value: Any) -> Iterator[Any]:
    """The tensors in what a step returned, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)
