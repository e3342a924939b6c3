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
    """How far all that a recording counts had come at some moment."""

    number: int  # all numbers given out from here on are higher
    sequence: int  # of the next node of this thread
    span: int
    act: int
    step: int
    is_over: bool  # whether the next step begins when history is recorded again
    t: int  # on the trace's clock


@dataclass(slots=True)
class ReplayWindow:
    """One step that ran while somebody listened."""

    tensors: Sequence[Any]  # that it could reach, or was given
    grads: Sequence[Any]  # theirs, when it began: weak, or None
    numbers: list[int]  # of both, when it began; 0: it had none yet
    gathering: list[int]  # numbers of the nodes that gathered gradients of these tensors then
    storages: list[int]  # and of their storages
    versions: list[int]
    begun: WindowMarks
    thread: int
    ended: WindowMarks | None = None
    blocks: list[tuple[type[Row], Block]] = field(default_factory=list)
