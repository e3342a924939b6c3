"""The interface of a watcher to replays, and how a captured step reports them.

# Note [A replay is reported like the step]
A replay has no calls and nodes that could be reported. So while a step is recorded, a watcher
stores what was reported of that eager run, its *template*, with the plan. For each replay it
receives which tensors existed and which are new, and when each piece of the plan began and ended.
From these it derives the step's events, with other numbers and the times of the pieces. For a
watcher that has not seen the step yet, the plan is recorded again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gradscope.runtime.core.tensors.tensor.tensor import Tensor


@dataclass(frozen=True, slots=True)
class ReplayRun:
    """The step, the plan, and the times of its pieces."""

    captured: Any
    plan: Any
    timed: Any


class Told(Protocol):
    """The interface of a watcher to replays."""

    over: bool  # the recording has ended
    reason: str  # why replays cannot be reported; "" if they can

    def open(self, tensors: Sequence[Any]) -> Any:
        """A step that can reach these tensors is about to run and to be recorded as a plan."""

    def close(self, window: Any) -> None:
        """The step has run."""

    def template(self, window: Any, results: Sequence[Any], calls: Sequence[Any]) -> Any:
        """The template of what was reported; None if a replay cannot use it.

        `results`: tensors that the step returned. `calls`: those of the plan, with their times.
        """

    def begin(self, template: Any, tensors: Sequence[Any]) -> Any:
        """A replay begins, with these tensors in place of those of `open`."""

    def end(self, replay: Any, results: Sequence[Any], run: ReplayRun) -> None:
        """The replay has ended."""

    def met(self, captured: Any) -> None:
        """A captured step, or a piece of one, is called."""


def tensors_in(value: Any) -> Iterator[Any]:
    """The tensors in a step's results, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)
