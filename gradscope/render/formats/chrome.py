"""Chrome's trace events: JSON of the whole trace over time, for chrome://tracing and others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from gradscope.render.formats import Drawn, Format
from gradscope.render.theme import Theme
from gradscope.scene.readable import plural
from gradscope.scene.timeline.tracks.slices import ABOUT, DEFAULTS, WORDS, Sort
from gradscope.scene.timeline.tracks.tracks import Tracks
from gradscope.trace.schema import NONE

BESIDE = 1_000_000
"""First number of the lanes next to threads, and of steps; numbers of threads are smaller."""


def write(tracks: Tracks, theme: Theme | None) -> Drawn:  # noqa: ARG001  Chrome has its own colours
    """The trace as trace events, one object each."""
    events = [*_Events(tracks).all()]
    text = orjson.dumps({"traceEvents": events, "displayTimeUnit": "ns"})
    return Drawn(text, tracks.notes, plural(len(tracks.slices), "slice"))


FORMAT = Format(
    "chrome",
    ".chrome.json",
    "the trace over time, for chrome://tracing",
    write,
    takes="tracks",
    endings=(".chrome.json",),
)


class _Events:
    """One file's events."""

    def __init__(self, tracks: Tracks) -> None:
        self._tracks = tracks
        self._first = next(iter(tracks.pids.values()))
        self._at: dict[tuple[int, int], tuple[int, int]] = {}  # by thread and lane: pid and tid
        self._of: dict[int, tuple[int, int]] = {}  # by slice
        for lane in tracks.lanes:
            strand = tracks.strand(lane.thread)
            if strand is None:
                place = self._first, BESIDE + lane.number
            else:
                number = strand.native or strand.id + 1
                beside = (lane.number and BESIDE * (2 + lane.number)) + number
                place = tracks.pids[strand.process], beside
            self._at[lane.thread, lane.number] = place
            self._of |= dict.fromkeys((turn for turn in lane.turns.tolist() if turn >= 0), place)

    def all(self) -> Iterator[dict[str, Any]]:
        yield from self._names()
        yield from self._slices()
        yield from self._arrows()
        yield from self._moments()
        for level in self._tracks.levels:
            unit = "bytes" if level.is_bytes else "nodes"
            for t, value in zip(level.t.tolist(), level.values.tolist(), strict=True):
                told = {"ph": "C", "pid": self._first, "tid": 0, "ts": t / 1000}
                yield told | {"name": level.title, "args": {unit: value}}

    def _names(self) -> Iterator[dict[str, Any]]:
        tracks = self._tracks
        for rank, pid in tracks.pids.items():
            name = f"{tracks.script} (rank {rank})" if len(tracks.pids) > 1 else tracks.script
            yield _named("process_name", pid, 0, name)
        for lane in tracks.lanes:
            strand = tracks.strand(lane.thread)
            name = strand.name if strand else "steps"
            pid, tid = self._at[lane.thread, lane.number]
            yield _named("thread_name", pid, tid, f"{name}, beside" if lane.number else name)

    def _slices(self) -> Iterator[dict[str, Any]]:
        slices, words = self._tracks.slices, self._tracks.words
        about = self._about()
        columns = (slices.begin, slices.end, slices.sort, slices.name)
        titles = [sort.title for sort in Sort]
        rows = [column.tolist() for column in columns]
        for place, (pid, tid) in self._of.items():
            begin, end, sort, name = (row[place] for row in rows)
            yield {
                "ph": "X",
                "pid": pid,
                "tid": tid,
                "ts": begin / 1000,
                "dur": (end - begin) / 1000,
                "name": words[name] or "(unnamed)",
                "cat": titles[sort],
                "args": about[place],
            }

    def _about(self) -> list[dict[str, Any]]:
        slices, words = self._tracks.slices, self._tracks.words
        found: list[dict[str, Any]] = [{} for _ in range(len(slices))]
        for name in ABOUT:
            usual = DEFAULTS.get(name, NONE)
            column = slices.about[name].tolist() if name in slices.about else ()
            for about, value in zip(found, column, strict=False):
                if value != usual:
                    about[name] = words[value] if name in WORDS else value
        return found

    def _arrows(self) -> Iterator[dict[str, Any]]:
        arrows = self._tracks.arrows
        begin = self._tracks.slices.begin.tolist()
        columns = (arrows.tail, arrows.head, arrows.made)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for number, (tail, head, made) in enumerate(rows, 1):
            if tail not in self._of or head not in self._of:
                continue
            name = "made" if made else "gradient"
            for phase, place in (("s", tail), ("f", head)):
                pid, tid = self._of[place]
                arrow = {"ph": phase, "pid": pid, "tid": tid, "ts": begin[place] / 1000}
                arrow |= {"id": number, "name": name, "cat": name}
                yield arrow | {"bp": "e"} if phase == "f" else arrow

    def _moments(self) -> Iterator[dict[str, Any]]:
        moments, words = self._tracks.moments, self._tracks.words
        columns = (moments.t, moments.thread, moments.name, moments.note)
        for t, thread, name, note in zip(*(each.tolist() for each in columns), strict=True):
            pid, tid = self._at.get((thread, 0), (self._first, 0))
            told = {"ph": "i", "s": "t", "pid": pid, "tid": tid, "ts": t / 1000}
            told |= {"name": words[name] or "(unnamed)", "cat": "moment"}
            yield told | {"args": {"note": words[note]}} if note else told


def _named(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": pid, "tid": tid, "name": what, "args": {"name": name}}
