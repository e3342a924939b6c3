"""A trace for timeline viewers: lanes of slices, arrows, events and counters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

import numpy as np

from gradscope.analysis.graph.selection import Selection
from gradscope.analysis.identity.backwards import backward_numbered
from gradscope.analysis.identity.steps import step_ids
from gradscope.analysis.timing.durations import node_runs
from gradscope.analysis.timing.own_work import FOREVER
from gradscope.errors import EmptyTraceError
from gradscope.scene.readable import count
from gradscope.scene.timeline.tracks.arrows import Arrows, arrows_of
from gradscope.scene.timeline.tracks.modules import without_ends
from gradscope.scene.timeline.tracks.moments import (
    Levels,
    TrackMoments,
    Windows,
    cut,
    cut_levels,
    levels_of,
    moments_of,
)
from gradscope.scene.timeline.tracks.nesting import NestedSlices, ends_of, lanes_of
from gradscope.scene.timeline.tracks.slices import Slices, TrackWords, joined, taken
from gradscope.scene.timeline.tracks.table_slices import (
    TrackNames,
    backward_slices,
    hook_slices,
    node_slices,
    op_slices,
    span_slices,
    step_slices,
)
from gradscope.trace.schema import NONE, GraphTask, NodeBegin, Op, Step, Thread
from gradscope.trace.text import visible
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class Strand:
    """A thread of a process."""

    id: int
    name: str
    process: int  # the rank of the process, among those that train together
    native: int  # its id in the operating system; 0 if not known


@dataclass(frozen=True, slots=True)
class Tracks:
    """Everything that happened in a trace, over time."""

    script: str
    pids: dict[int, int]  # by rank
    strands: tuple[Strand, ...]
    slices: Slices
    lanes: tuple[NestedSlices, ...]
    arrows: Arrows
    moments: TrackMoments
    levels: tuple[Levels, ...]
    words: tuple[str, ...]
    begin: int
    end: int
    notes: tuple[str, ...]

    def strand(self, thread: int) -> Strand | None:
        """The thread with this id; None for the whole program."""
        return next((each for each in self.strands if each.id == thread), None)


def tracks(trace: Trace, selection: Selection | None = None) -> Tracks:
    """The tracks of a trace, or of one of its steps or backwards."""
    selection = selection or Selection()
    words = TrackWords()
    known = TrackNames(trace, words)
    runs = node_runs(trace)
    ops, forward = op_slices(known)
    nodes, backward = node_slices(known, runs)
    parts = (step_slices(known), span_slices(known), backward_slices(known), forward, backward)
    whole = _timed(joined((*parts, nodes, hook_slices(known), ops)))
    windows = _windows(trace, selection)
    if windows is not None:
        whole = _inside(whole, windows)
    if not len(whole):
        raise EmptyTraceError(_nothing(trace, selection))
    moments = cut(moments_of(trace, words), windows)
    levels = tuple(cut_levels(each, windows) for each in levels_of(trace))
    ended = whole.end[whole.end != NONE]
    columns = [whole.begin, ended, moments.t, *(each.t for each in levels)]
    first = min(int(column.min()) for column in columns if len(column))
    last = max(int(column.max()) for column in columns if len(column))
    did_not_end = (whole.end == NONE).astype(np.int64)
    if did_not_end.any():
        whole.about["did_not_end"] = did_not_end
    whole.end = ends_of(whole, last)
    lanes, left = lanes_of(whole, last)
    strands = _strands(trace, whole, moments)
    return Tracks(
        script=visible(PurePath(str(trace.meta.get("script", ""))).name) or "trace",
        pids=_pids(trace, strands),
        strands=strands,
        slices=whole,
        lanes=tuple(lanes),
        arrows=arrows_of(trace, whole),
        moments=moments,
        levels=tuple(each for each in levels if len(each.t)),
        words=tuple(words.texts),
        begin=first,
        end=last,
        notes=_notes(trace, left),
    )


# -- windows ----------------------------------------------------------------------------------


def _windows(trace: Trace, selection: Selection) -> Windows | None:
    """The periods of the selected part; several where each rank has that step."""
    of_task, of_step = [(0, FOREVER)], [(0, FOREVER)]
    if selection.backward is not None:
        task = backward_numbered(trace, selection.backward)
        of_task = [(task.begin, FOREVER if task.end == NONE else task.end)]
    if selection.step is not None:
        wanted = set(step_ids(trace, selection.step))
        rows = [row for row in trace.rows(Step) if row.id in wanted]
        of_step = [(row.begin, FOREVER if row.end == NONE else row.end) for row in rows]
    if selection.backward is None and selection.step is None:
        return None
    return [
        (max(begin, since), min(end, until)) for begin, end in of_task for since, until in of_step
    ]


def _timed(slices: Slices) -> Slices:
    """The slices with a start; times are clipped so that no difference overflows."""
    slices = taken(slices, np.flatnonzero(slices.begin >= 0))
    slices.begin = np.clip(slices.begin, 0, FOREVER)
    slices.end = np.clip(slices.end, NONE, FOREVER)
    slices.end = np.where(slices.end < slices.begin, NONE, slices.end)
    return slices


def _inside(slices: Slices, windows: Windows) -> Slices:
    """The slices that overlap these periods."""
    stays = np.zeros(len(slices), bool)
    for begin, end in windows:
        lasts = (slices.end > begin) | (slices.end == NONE)
        stays |= (slices.begin < end) & lasts
        stays |= (slices.begin == begin) & (begin <= end)
    return taken(slices, np.flatnonzero(stays))


def _nothing(trace: Trace, selection: Selection) -> str:
    if selection != Selection():
        return "nothing that takes time was recorded in the part selected by --step or --task"
    if trace.event_count or len(trace.table(Op)):
        return "this trace has no times: the start of the recording is missing; record it again"
    return "this trace has no times: it contains no operations, no backwards and no engine events"


def _notes(trace: Trace, left: int) -> tuple[str, ...]:
    notes = []
    if len(trace.table(GraphTask)) and not len(trace.table(NodeBegin)):
        notes.append(
            "this trace has no times of nodes, hooks and queues; record it with --level engine"
        )
    if without_ends(trace) and len(trace.table(Op)):
        notes.append(
            "this trace has no end times of operations, so they are shown as moments; record it "
            "with --level engine"
        )
    if left:
        notes.append(f"{count(left)} slices are not shown: they overlap too many others")
    return tuple(notes)


# Threads -------------------------------------------------------------------------------------


def _strands(trace: Trace, slices: Slices, moments: TrackMoments) -> tuple[Strand, ...]:
    seen = np.concatenate([slices.thread, moments.thread])
    used = [each for each in np.unique(seen).tolist() if each != NONE]
    rows = {row.id: row for row in trace.rows(Thread)}
    found = []
    for id in used:
        row = rows.get(id, Thread(id))
        native = row.native if 0 < row.native < 1 << 31 else 0
        found.append(Strand(id, visible(row.name) or f"thread {id}", row.rank, native))
    numbers = [(each.process, each.native) for each in found]
    if len(set(numbers)) < len(numbers):  # ids of threads are reused
        found = [Strand(each.id, each.name, each.process, 0) for each in found]
    return tuple(found)


def _pids(trace: Trace, strands: tuple[Strand, ...]) -> dict[int, int]:
    """The id of each process: that of the operating system, or else numbered from 1 by rank."""
    ranks = {strand.process for strand in strands} or {0}
    pid = trace.meta.get("pid")
    if len(ranks) == 1 and pid is not None and 0 < pid < 1 << 31:
        return dict.fromkeys(ranks, pid)
    return {rank: place + 1 for place, rank in enumerate(sorted(ranks))}
