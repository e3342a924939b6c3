"""The timeline in a terminal: lanes, then one bar for each node; never wider than asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from gradscope.render.terminal.cells import Charset, line, wrapped
from gradscope.render.terminal.plot import (
    Axis,
    Cells,
    busy_cells,
    level_cells,
    moment_cells,
    painted,
    ruler,
    wait_and_run_cells,
)
from gradscope.render.terminal.styles import ACCENT, ALARM, BOLD, SOFT
from gradscope.render.views.program import program_lines
from gradscope.scene.readable import duration
from gradscope.scene.timeline.events import EventLine, EventList
from gradscope.scene.timeline.timeline import Lane, LaneKind, Row, TaskTimeline, TimelineScene
from gradscope.trace.schema import NONE

GAP = "  "
NARROWEST = 60


def timeline_lines(scene: TimelineScene, width: int, charset: Charset) -> Iterator[Text]:
    """The lines of a timeline, each at most `width` cells wide."""
    width = max(width, NARROWEST)
    if scene.program is not None:
        yield from program_lines(scene.program, width, charset)
    for number, task in enumerate(scene.tasks):
        if number or scene.program is not None:
            yield line("")
        yield from _task(task, width, charset)
    for note in scene.notes:
        yield line("")
        yield from _note(note, width, charset)


def _task(task: TaskTimeline, width: int, charset: Charset) -> Iterator[Text]:
    call = f"{GAP}{task.call}" if task.call else ""
    yield line((charset.fit(task.title + call, width).rstrip(), BOLD))
    yield line((charset.fit(task.facts, width).rstrip(), SOFT))
    yield line("")
    yield from _lanes(task, width, charset)
    yield line("")
    yield from _rows(task, width, charset)
    for note in task.notes:
        yield from _note(note, width, charset)
    for error in task.errors:  # whose message may have lines of its own
        yield from _note(" ".join(error.split()), width, charset, ALARM)


def _note(note: str, width: int, charset: Charset, style: str = ACCENT) -> Iterator[Text]:
    return (line((part, style)) for part in wrapped(charset, note, width))


# Lanes ---------------------------------------------------------------------------------------


def _lanes(task: TaskTimeline, width: int, charset: Charset) -> Iterator[Text]:
    label = min(max((_cells_of(lane.title, charset) for lane in task.lanes), default=5), 14)
    words = min(max((_cells_of(lane.words, charset) for lane in task.lanes), default=0), 28)
    axis = Axis(task.begin, task.end, width - label - words - 2 * len(GAP))
    yield line(" " * label + GAP, (ruler(task.end - task.begin, axis.width, charset), SOFT))
    for lane in task.lanes:
        cells = _lane_cells(lane, axis, charset)
        numbers = charset.fit(lane.words, words).rstrip()
        yield line((charset.fit(lane.title, label), BOLD), GAP, *painted(cells), GAP, numbers)


def _lane_cells(lane: Lane, axis: Axis, charset: Charset) -> Cells:
    match lane.kind:
        case LaneKind.RUN | LaneKind.OWN_WORK:
            return busy_cells(lane.spans, axis, charset, lane.asleep)
        case LaneKind.QUEUE:
            return level_cells(lane.levels, axis, charset)
        case LaneKind.HOOKS:
            return moment_cells(lane.spans, axis, charset.hook, charset)
        case LaneKind.ACCUMULATE:
            return moment_cells(lane.spans, axis, charset.accumulate, charset)


def _cells_of(text: str, charset: Charset) -> int:
    return cell_len(charset.text(text))


# Rows ----------------------------------------------------------------------------------------


def _rows(task: TaskTimeline, width: int, charset: Charset) -> Iterator[Text]:
    number = max((len(str(row.position)) for row in task.rows), default=1)
    titles = max((_cells_of(row.title, charset) for row in task.rows), default=4)
    title = min(max(titles, 4), max(width // 4, 18))
    site = _column_of([row.site.place for row in task.rows], 18, charset) if width >= 90 else 0
    after = _column_of([row.after for row in task.rows], 24, charset) if width >= 130 else 0
    fixed = number + title + 2 * 9 + 4 * len(GAP) + sum(w + len(GAP) for w in (site, after) if w)
    axis = Axis(task.begin, task.end, max(width - fixed, 8))
    yield line((_header(number, title, axis.width, after, site, charset), SOFT))
    for row in task.rows:
        ready = row.ready if row.ready != NONE else None
        end = task.end if row.end == NONE else row.end
        bar = wait_and_run_cells(ready, row.begin, end, row.kind, axis, charset)
        alarm = ALARM if row.failed else ""
        parts: list[str | tuple[str, str]] = [
            (charset.fit(str(row.position), number, right=True), SOFT),
            GAP,
            (charset.fit(row.title, title), alarm),
            GAP,
            *painted(bar),
            GAP,
            (charset.fit(row.waited, 9, right=True), SOFT),
            GAP,
            (charset.fit(_ran(row), 9, right=True), alarm),
        ]
        parts += [GAP, (charset.fit(row.after, after), SOFT)] if after else []
        parts += [GAP, (charset.fit_end(row.site.place, site), ACCENT)] if site else []
        text = line(*parts)
        text.rstrip()
        yield text


def _ran(row: Row) -> str:
    return "failed" if row.failed else row.ran


def _column_of(texts: Sequence[str], most: int, charset: Charset) -> int:
    """How wide a column of these texts is; 0 when there is nothing in it."""
    return min(max((_cells_of(text, charset) for text in texts), default=0), most)


def _header(number: int, title: int, plot: int, after: int, site: int, charset: Charset) -> str:
    key = f"{charset.wait} waits {charset.run} runs"
    parts = [
        "#".rjust(number),
        charset.fit("node", title),
        charset.fit(key, plot) if plot >= len(key) else " " * plot,
        "waited".rjust(9),
        "ran".rjust(9),
    ]
    parts += [charset.fit("after", after)] if after else []
    parts += [charset.fit("at", site)] if site else []
    return GAP.join(parts).rstrip()


# Events --------------------------------------------------------------------------------------


def event_lines(events: EventList, width: int, charset: Charset) -> Iterator[Text]:
    """One line for each event, each at most `width` cells wide."""
    width = max(width, NARROWEST)
    rows = events.lines
    first = rows[0].t if rows else 0
    numbers = max(len(str(row.seq)) for row in rows)
    times = max(_cells_of(duration(row.t - first), charset) for row in rows)
    kinds = max(len(row.kind) for row in rows)
    nodes = min(max(_cells_of(row.node, charset) for row in rows), max(width // 3, 20))
    for row in rows:
        text = GAP.join(_event_cells(row, first, (numbers, times, kinds, nodes), charset))
        yield line(charset.fit(text, width).rstrip())
    for note in events.notes:
        yield from _note(note, width, charset)


def _event_cells(
    row: EventLine, first: int, widths: tuple[int, int, int, int], charset: Charset
) -> list[str]:
    numbers, times, kinds, nodes = widths
    return [
        str(row.seq).rjust(numbers),
        charset.fit(duration(row.t - first), times, right=True),
        f"t{row.thread}",
        f"b{row.backward}" if row.backward != NONE else "  ",
        row.kind.ljust(kinds),
        charset.fit(row.node, nodes),
        charset.text(row.details),
    ]
