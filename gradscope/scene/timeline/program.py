"""The program over time: its spans and marks, and the backwards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from gradscope.analysis.identity.backwards import backward_numbered, backward_numbers, backwards
from gradscope.analysis.identity.steps import step_ids
from gradscope.analysis.ranks.whose import RankOf, on_ranks
from gradscope.analysis.timing.own_work import OwnWorkTimes
from gradscope.analysis.timing.spans import marks, spans
from gradscope.scene.graph.backwards import title_of
from gradscope.scene.readable import count, duration
from gradscope.trace.schema import NONE, GraphTask, Phase, Step, Thread
from gradscope.trace.trace import Trace

LONG = 1_000_000
"""Shortest own work of gradscope that has a row, in nanoseconds."""


class SaidBy(StrEnum):
    """The kind of a row."""

    SPAN = "span"
    MARK = "mark"
    BACKWARD = "backward"
    OWN_WORK = "gradscope"  # its own work, such as compiling; not counted in other rows


@dataclass(frozen=True, slots=True)
class ProgramRow:
    """One span, mark or backward."""

    kind: SaidBy
    title: str
    depth: int  # how many others of its thread it is inside
    thread: str  # "" where all are of one thread
    begin: int
    end: int
    took: str


@dataclass(frozen=True, slots=True)
class ProgramTimeline:
    """Spans, marks and backwards in a period of time."""

    title: str
    begin: int
    end: int
    rows: tuple[ProgramRow, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Stretch:
    kind: SaidBy
    title: str
    thread: int
    begin: int
    end: int
    ended: bool = True


def program_timeline(
    trace: Trace, *, step: int | None = None, task: int | None = None, rows: int = 0
) -> ProgramTimeline | None:
    """The spans and marks of a step, a backward or the whole trace; None if there are none."""
    said = [*_spans(trace), *_marks(trace)]
    own = OwnWorkTimes(trace)
    whole = [*said, *_backwards(trace), *_own_work(own)]
    window = _window(trace, step, task)
    if window is None:
        window = (min(r.begin for r in whole), max(r.end for r in whole)) if whole else (0, 0)
    begin, end = window
    if not any(_is_inside(each, begin, end) for each in said):
        return None
    inside = [each for each in whole if _is_inside(each, begin, end)]
    inside.sort(key=lambda each: (each.begin, -each.end, each.kind is SaidBy.MARK))
    found = _with_depths(inside, _threads(trace, inside), own)
    shown = found[:rows] if rows else found
    note = f"showing {count(len(shown))} of {count(len(found))} spans, marks and backwards"
    return ProgramTimeline(
        title=" ".join(["spans and marks", *_of(trace, step, task)]),
        begin=begin,
        end=max(end, begin + 1),
        rows=tuple(shown),
        notes=(f"{note}; --step N or --rows N for more",) if len(shown) < len(found) else (),
    )


def _is_inside(each: _Stretch, begin: int, end: int) -> bool:
    """Whether a part of it lies in the window; not if it ends just as the window begins."""
    return each.begin <= end and (each.end > begin or each.begin == begin)


def _of(trace: Trace, step: int | None, task: int | None) -> Iterator[str]:
    if task is not None:
        rank = trace.once(RankOf).words(GraphTask.TABLE, backward_numbered(trace, task).id)
        yield f"during {rank}backward {task}"
    elif step is not None:
        yield f"of step {step}{on_ranks(trace)}"


def _window(trace: Trace, step: int | None, task: int | None) -> tuple[int, int] | None:
    if task is not None:
        row = backward_numbered(trace, task)
        return row.begin, _last(trace) if row.end == NONE else row.end
    if step is not None:
        chosen = set(step_ids(trace, step))
        stretches = [row for row in trace.rows(Step) if row.id in chosen]
        ends = [_last(trace) if row.end == NONE else row.end for row in stretches]
        return min(row.begin for row in stretches), max(ends)
    return None


def _last(trace: Trace) -> int:
    """The last moment at which something is known to have happened."""
    moments = [mark.t for mark in marks(trace)]
    moments += [each for span in spans(trace) for each in (span.begin, span.end)]
    moments += [each for task in backwards(trace) for each in (task.begin, task.end)]
    return max(moments, default=0)


def _spans(trace: Trace) -> Iterator[_Stretch]:
    last = _last(trace)
    for span in spans(trace):
        if span.phase is Phase.OWN_WORK:
            continue
        ended = span.end != NONE
        end = span.end if ended else last
        yield _Stretch(SaidBy.SPAN, span.title or "(unnamed)", span.thread, span.begin, end, ended)


def _marks(trace: Trace) -> Iterator[_Stretch]:
    for mark in marks(trace):
        title = f"{mark.name}: {mark.note}" if mark.note else mark.name
        yield _Stretch(SaidBy.MARK, title or "(unnamed)", mark.thread, mark.t, mark.t)


def _backwards(trace: Trace) -> Iterator[_Stretch]:
    last, numbers = _last(trace), backward_numbers(trace)
    for task in backwards(trace):
        ended = task.end != NONE
        title = title_of(trace, task, numbers, rank=False)  # its thread says the rank
        end = task.end if ended else last
        yield _Stretch(SaidBy.BACKWARD, title, task.thread, task.begin, end, ended)


def _own_work(own: OwnWorkTimes) -> Iterator[_Stretch]:
    for each in own.stretches:
        if each.end - each.begin >= LONG:
            yield _Stretch(SaidBy.OWN_WORK, each.name, each.thread, each.begin, each.end)


def _threads(trace: Trace, stretches: list[_Stretch]) -> dict[int, str]:
    """The names of threads, where there are several; those of a merged trace have a rank."""
    used = {each.thread for each in stretches}
    names = {thread.id: thread.name or f"thread {thread.id}" for thread in trace.rows(Thread)}
    several = len(used) > 1 or bool(trace.once(RankOf).numbers)
    return {id: names.get(id, f"thread {id}") if several else "" for id in used}


def _with_depths(
    stretches: list[_Stretch], threads: dict[int, str], own: OwnWorkTimes
) -> list[ProgramRow]:
    """The rows; the depth of each is the number of ranges around it on its thread."""
    around: dict[int, list[int]] = {}
    rows = []
    for each in stretches:
        ends = [end for end in around.get(each.thread, []) if end >= each.end and end > each.begin]
        row = ProgramRow(
            each.kind,
            each.title,
            len(ends),
            threads[each.thread],
            each.begin,
            each.end,
            _took(each, own),
        )
        rows.append(row)
        if each.kind is not SaidBy.MARK:
            around[each.thread] = [*ends, each.end]
    return rows


def _took(each: _Stretch, own: OwnWorkTimes) -> str:
    if each.kind is SaidBy.MARK:
        return ""
    if not each.ended:
        return "did not end"
    took = each.end - each.begin
    if each.kind is not SaidBy.OWN_WORK:
        took -= own.on((each.thread,), each.begin, each.end)
    return duration(took)
