"""Lanes of a timeline: what ran, or how long a queue was, over time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gradscope.scene.kinds import NodeKind


class LaneKind(StrEnum):
    """The kind of a lane."""

    RUN = "runs"
    QUEUE = "queue"
    HOOKS = "hooks"
    ACCUMULATE = "accumulates"
    BUCKET = "bucket"  # gradients that ranks reduce together
    OWN_WORK = "gradscope"  # its own work, such as compiling


@dataclass(frozen=True, slots=True)
class Bar:
    """Something that took time, or an event, which takes none."""

    begin: int
    end: int
    kind: NodeKind
    failed: bool = False


@dataclass(frozen=True, slots=True)
class LevelAt:
    """A number from one moment on."""

    t: int
    value: int


@dataclass(frozen=True, slots=True)
class TimeLane:
    """One line of the picture."""

    kind: LaneKind
    title: str
    spans: tuple[Bar, ...]
    levels: tuple[LevelAt, ...]
    words: str  # figures next to the bars
    asleep: tuple[Bar, ...] = ()  # when a thread waited for others
