"""Captures the rows that a recording writes while one step runs, as a template for replays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradscope.trace.schema.declare import Row
    from gradscope.trace.table import Block


@dataclass(frozen=True, slots=True)
class WindowMarks:
    """The state of all counts of a recording at one time."""

    number: int  # all numbers assigned from here on are higher
    sequence: int  # of the next node of this thread
    span: int
    act: int
    step: int
    is_over: bool  # whether the next step begins when a graph is recorded again
    t: int  # on the clock of the trace


@dataclass(slots=True)
class ReplayWindow:
    """One step whose rows were captured."""

    tensors: Sequence[Any]  # those that it could reach, or received
    grads: Sequence[Any]  # their gradients when it began: weak references, or None
    numbers: list[int]  # of both when it began; 0: no number yet
    gathering: list[int]  # numbers of the nodes that accumulated gradients of these tensors then
    storages: list[int]  # and of their storages
    versions: list[int]
    begun: WindowMarks
    thread: int
    ended: WindowMarks | None = None
    blocks: list[tuple[type[Row], Block]] = field(default_factory=list)
