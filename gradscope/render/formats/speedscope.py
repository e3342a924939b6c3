"""speedscope: nested slices as flame graphs of https://www.speedscope.app."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson

from gradscope.analysis.lookups import Ids
from gradscope.render.formats import Drawn, Format
from gradscope.render.theme import Theme
from gradscope.scene.readable import plural
from gradscope.scene.timeline.tracks.nesting import NestedSlices
from gradscope.scene.timeline.tracks.tracks import Tracks

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def write(tracks: Tracks, theme: Theme | None) -> Drawn:  # noqa: ARG001  speedscope has its own colours
    """The trace as a file of speedscope: a profile for each thread."""
    frames, which = _frames(tracks)
    document = {
        "$schema": SCHEMA,
        "exporter": "gradscope",
        "name": tracks.script,
        "activeProfileIndex": _longest(tracks),
        "shared": {"frames": frames},
        "profiles": [_profile(tracks, lane, which) for lane in tracks.lanes],
    }
    return Drawn(orjson.dumps(document), tracks.notes, plural(len(tracks.slices), "slice"))


FORMAT = Format(
    "speedscope",
    ".speedscope.json",
    "what ran inside what, for speedscope.app",
    write,
    takes="tracks",
    endings=(".speedscope.json",),
)


def _frames(tracks: Tracks) -> tuple[list[dict[str, Any]], Ids]:
    """Unique frames of slices, and the frame of each slice."""
    slices, words = tracks.slices, tracks.words
    keys = np.stack([slices.name, slices.column("file"), slices.column("line")], axis=1)
    different, which = np.unique(keys, axis=0, return_inverse=True)
    frames = []
    for name, file, line in different.tolist():
        frame: dict[str, Any] = {"name": words[name] or "(unnamed)"}
        if file:
            frame["file"] = words[file]
        if line > 0:
            frame["line"] = line
        frames.append(frame)
    return frames, which.reshape(-1)


def _profile(tracks: Tracks, lane: NestedSlices, which: Ids) -> dict[str, Any]:
    strand = tracks.strand(lane.thread)
    name = strand.name if strand else "steps"
    if strand and len(tracks.pids) > 1:
        name = f"rank {strand.process}: {name}"
    closes = lane.turns < 0
    slices = np.where(closes, -1 - lane.turns, lane.turns)
    at = np.where(closes, tracks.slices.end[slices], tracks.slices.begin[slices])
    rows = zip(closes.tolist(), which[slices].tolist(), at.tolist(), strict=True)
    return {
        "type": "evented",
        "name": f"{name} (overlapping)" if lane.number else name,
        "unit": "nanoseconds",
        "startValue": tracks.begin,
        "endValue": tracks.end,
        "events": [
            {"type": "C" if is_end else "O", "frame": frame, "at": when}
            for is_end, frame, when in rows
        ],
    }


def _longest(tracks: Tracks) -> int:
    """The profile that is shown first: the one with the most slices."""
    lengths = [len(lane.turns) for lane in tracks.lanes]
    return lengths.index(max(lengths))
