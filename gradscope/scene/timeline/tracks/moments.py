"""Events without duration: marks, errors, arriving gradients; and counters over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from gradscope.analysis.graph.memory import held, over_time
from gradscope.analysis.lookups import Ids
from gradscope.analysis.timing.own_work import FOREVER
from gradscope.analysis.timing.spans import marks
from gradscope.scene.timeline.tracks.slices import TrackWords
from gradscope.trace.schema import Accumulate, Error, Pop, Push, Saved
from gradscope.trace.trace import Trace

Windows: TypeAlias = list[tuple[int, int]]
"""Periods of time, as begin and end."""


@dataclass(frozen=True, slots=True)
class TrackMoments:
    """Events without duration; equal-length columns."""

    t: Ids
    thread: Ids
    name: Ids
    note: Ids


@dataclass(frozen=True, slots=True)
class Levels:
    """A counter over time."""

    title: str
    is_bytes: bool
    t: Ids
    values: Ids


def moments_of(trace: Trace, words: TrackWords) -> TrackMoments:
    """Marks of the program, gradients that arrived in `.grad`, and errors."""
    rows = [(each.t, each.thread, each.name or "mark", each.note) for each in marks(trace)]
    rows += [(row.t, row.thread, f"raised {row.type}", row.message) for row in trace.rows(Error)]
    arrived = trace.table(Accumulate)
    t = np.array([row[0] for row in rows], np.int64)
    thread = np.array([row[1] for row in rows], np.int64)
    text = words.add(".grad arrived")
    return TrackMoments(
        np.clip(np.concatenate([t, arrived["t"]]).astype(np.int64), 0, FOREVER),
        np.concatenate([thread, arrived["thread"]]).astype(np.int64),
        np.concatenate([words.column(row[2] for row in rows), np.full(len(arrived), text)]).astype(
            np.int64
        ),
        np.concatenate(
            [words.column(row[3] for row in rows), np.zeros(len(arrived), np.int64)]
        ).astype(np.int64),
    )


def _within(t: Ids, windows: Windows) -> np.ndarray:
    stays = np.zeros(len(t), bool)
    for begin, end in windows:
        stays |= (t >= begin) & (t <= end)
    return stays


def cut(moments: TrackMoments, windows: Windows | None) -> TrackMoments:
    """The events in some periods of time."""
    if windows is None:
        return moments
    stays = _within(moments.t, windows)
    return TrackMoments(
        moments.t[stays], moments.thread[stays], moments.name[stays], moments.note[stays]
    )


def levels_of(trace: Trace) -> list[Levels]:
    """The length of each ready queue, and the bytes that the graph keeps alive."""
    tables = [trace.table(kind) for kind in (Push, Pop)]
    seq, t, queue, length = (
        np.concatenate([table[name] for table in tables]).astype(np.int64)
        for name in ("seq", "t", "queue", "length")
    )
    order = np.argsort(seq, kind="stable")
    t, queue, length = t[order], queue[order], length[order]
    found = []
    several = np.unique(queue).tolist()
    for each in several:
        mine = queue == each
        title = f"ready queue {each}" if len(several) > 1 else "ready queue"
        found.append(_level(title, t[mine], length[mine], is_bytes=False))
    if len(trace.table(Saved)):
        over = over_time(held(trace))
        found.append(_level("saved for backward", over.t, over.bytes, is_bytes=True))
    return found


def _level(title: str, t: Ids, values: Ids, *, is_bytes: bool) -> Levels:
    """A counter; the last value at each moment counts."""
    t = np.clip(t, 0, FOREVER)
    last = np.ones(len(t), bool)
    last[:-1] = t[1:] != t[:-1]
    return Levels(title, is_bytes, t[last], values[last])


def cut_levels(levels: Levels, windows: Windows | None) -> Levels:
    """A counter in some periods of time."""
    if windows is None:
        return levels
    stays = _within(levels.t, windows)
    return Levels(levels.title, levels.is_bytes, levels.t[stays], levels.values[stays])
