"""The timeline in a terminal: lanes, then one bar for each node; limited to its width."""

from __future__ import annotations

from collections.abc import Iterator, Set as AbstractSet
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from gradscope.render.terminal.cells import Charset, line, wrapped
from gradscope.render.terminal.plot import (
    Cells,
    TimeAxis,
    busy_cells,
    level_cells,
    moment_cells,
    painted,
    ruler,
    wait_and_run_cells,
)
from gradscope.render.terminal.styles import ACCENT, ALARM, BOLD, SOFT, kind_style
from gradscope.render.views.program import program_lines
from gradscope.render.views.rank_views import heat_lines, rank_lane_lines
from gradscope.render.views.tables import table_lines
from gradscope.scene.kinds import NodeKind
from gradscope.scene.readable import duration
from gradscope.scene.timeline.events import EventLine, EventList
from gradscope.scene.timeline.lanes import LaneKind, TimeLane
from gradscope.scene.timeline.timeline import TaskTimeline, TimelineScene
from gradscope.scene.timeline.timeline_rows import TimelineRow
from gradscope.trace.schema import NONE

GAP = "  "
NARROWEST = 60


def timeline_lines(scene: TimelineScene, width: int, charset: Charset) -> Iterator[Text]:
    """The lines of a timeline, each at most `width` cells wide."""
    width = max(width, NARROWEST)
    if scene.steps is not None:
        yield from table_lines(scene.steps, width, charset)
    if scene.ranks is not None:
        yield from heat_lines(scene.ranks, width, charset)
    if scene.rank_lanes is not None:
        yield line("")
        yield from rank_lane_lines(scene.rank_lanes, width, charset)
    if scene.waits is not None:
        yield line("")
        yield from table_lines(scene.waits, width, charset)
    if scene.program is not None:
        if any((scene.steps, scene.waits, scene.ranks)):
            yield line("")
        yield from program_lines(scene.program, width, charset)
    for number, task in enumerate(scene.tasks):
        if number or any((scene.program, scene.steps, scene.ranks)):
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
    sheet = _sheet(task, width, charset)
    yield from _lanes(task, sheet, charset)
    for part in wrapped(charset, _key(task, charset), width):
        yield line((part, SOFT))
    yield line("")
    yield from _rows(task, sheet, charset)
    for note in task.notes:
        yield from _note(note, width, charset)
    for error in task.errors:  # whose message may have lines of its own
        yield from _note(" ".join(error.split()), width, charset, ALARM)


def _note(note: str, width: int, charset: Charset, style: str = ACCENT) -> Iterator[Text]:
    return (line((part, style)) for part in wrapped(charset, note, width))


def _key(task: TaskTimeline, charset: Charset) -> str:
    """The legend of the characters in the picture of this backward."""
    kinds = {lane.kind for lane in task.lanes}
    entries = (
        (True, f"{charset.run} running"),
        (LaneKind.RUN in kinds, f"{charset.some} for less than half the column"),
        (True, f"{charset.wait} waiting"),
        (LaneKind.QUEUE in kinds, f"{charset.levels[2]} ready in queue"),
        (LaneKind.HOOKS in kinds, f"{charset.hook} hook"),
        (LaneKind.ACCUMULATE in kinds, f"{charset.accumulate} gradient arrives"),
    )
    return "key: " + ", ".join(words for there, words in entries if there)


# One axis for all of a backward ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sheet:
    """The widths of columns left and right of the axis."""

    axis: TimeAxis
    took: int
    left: int
    number: int
    thread: int  # 0 where all nodes ran on one
    after: int
    site: int
    right: int

    @property
    def title(self) -> int:
        return self.left - self.number - len(GAP)

    def ruler(self, charset: Charset) -> str:
        """The ruler of the axis; for a short axis only its end."""
        drawn = ruler(self.took, self.axis.width, charset)
        if cell_len(drawn) > self.axis.width:
            drawn = charset.fit(duration(self.took), self.axis.width, right=True)
        return charset.fit(drawn, self.axis.width)


TIME = 9
"""The width of "1,234 ms", plus some space."""
NARROWEST_AXIS = 8


def _sheet(task: TaskTimeline, width: int, charset: Charset) -> _Sheet:
    wide = width >= 90
    number = max((len(str(row.position)) for row in task.rows), default=1)
    titles = max((_cells_of(row.title, charset) for row in task.rows), default=4)
    thread = _column_of({row.thread for row in task.rows}, 14 if wide else 6, charset)
    site = _column_of({row.site.place for row in task.rows}, 18, charset) if wide else 0
    after = _column_of({row.after for row in task.rows}, 24, charset) if width >= 130 else 0
    words = max((_cells_of(lane.words, charset) for lane in task.lanes), default=0)
    thread = max(thread, len("thread")) if thread else 0
    columns = (TIME, TIME, thread, after, site)
    right = sum(cells + len(GAP) for cells in columns if cells) - len(GAP)
    right = max(right, min(words, 28 if wide else 22))
    labels = min(max((_cells_of(lane.title, charset) for lane in task.lanes), default=5), 14)
    title = min(max(titles, 4), max(width // 4, 18))
    most = width - right - 2 * len(GAP) - NARROWEST_AXIS
    left = min(max(labels, number + len(GAP) + title), most)
    axis = TimeAxis(task.begin, task.end, width - left - right - 2 * len(GAP))
    took = task.end - task.begin
    return _Sheet(axis, took, left, number, thread, after, site, right)


def _column_of(texts: AbstractSet[str], most: int, charset: Charset) -> int:
    """The width of a column of these texts; 0 if it is empty."""
    return min(max((_cells_of(text, charset) for text in texts), default=0), most)


def _cells_of(text: str, charset: Charset) -> int:
    return len(text) if text.isascii() and text.isprintable() else cell_len(charset.text(text))


# Lanes ---------------------------------------------------------------------------------------


def _lanes(task: TaskTimeline, sheet: _Sheet, charset: Charset) -> Iterator[Text]:
    yield line(" " * sheet.left + GAP, (sheet.ruler(charset).rstrip(), SOFT))
    for lane in task.lanes:
        cells = _lane_cells(lane, sheet.axis, charset)
        numbers = charset.fit(lane.words, sheet.right).rstrip()
        yield line((charset.fit(lane.title, sheet.left), BOLD), GAP, *painted(cells), GAP, numbers)


def _lane_cells(lane: TimeLane, axis: TimeAxis, charset: Charset) -> Cells:
    match lane.kind:
        case LaneKind.RUN | LaneKind.OWN_WORK | LaneKind.BUCKET:
            return busy_cells(lane.spans, axis, charset, lane.asleep)
        case LaneKind.QUEUE:
            return level_cells(lane.levels, axis, charset)
        case LaneKind.HOOKS:
            return moment_cells(lane.spans, axis, charset.hook, charset)
        case LaneKind.ACCUMULATE:
            return moment_cells(lane.spans, axis, charset.accumulate, charset)


# Rows ----------------------------------------------------------------------------------------


def _rows(task: TaskTimeline, sheet: _Sheet, charset: Charset) -> Iterator[Text]:
    yield line((_header(sheet, charset), SOFT))
    for row in task.rows:
        yield _row(row, task.end, sheet, charset)


def _row(row: TimelineRow, until: int, sheet: _Sheet, charset: Charset) -> Text:
    ready = row.ready if row.ready != NONE else None
    end = until if row.end == NONE else row.end
    alarm = ALARM if row.failed else ""
    bar = wait_and_run_cells(ready, row.begin, end, row.kind, sheet.axis, charset)
    parts: list[str | tuple[str, str]] = [
        (charset.fit(str(row.position), sheet.number, right=True), SOFT),
        GAP,
        (_title(row, sheet.title, charset), alarm),
        GAP,
        *((text, kind_style(kind)) for text, kind in bar),
        GAP,
        (charset.fit(row.waited, TIME, right=True), SOFT),
        GAP,
        (charset.fit("failed" if row.failed else row.ran, TIME, right=True), alarm),
    ]
    if sheet.thread:
        parts += [GAP, charset.fit(row.thread, sheet.thread)]
    if sheet.after:
        parts += [GAP, (charset.fit(row.after, sheet.after), SOFT)]
    if sheet.site:
        parts += [GAP, (charset.fit_end(row.site.place, sheet.site), ACCENT)]
    text = line(*parts)
    if text.plain.endswith(" "):
        text.rstrip()
    return text


def _title(row: TimelineRow, width: int, charset: Charset) -> str:
    """The title of a row; the path of a leaf is cut at its beginning."""
    if row.kind is not NodeKind.LEAF:
        return charset.fit_numbered(row.title, width)
    title = charset.fit_end(row.title, width)
    return title + " " * (width - _cells_of(title, charset))


def _header(sheet: _Sheet, charset: Charset) -> str:
    parts = [
        "#".rjust(sheet.number),
        charset.fit("node", sheet.title),
        sheet.ruler(charset),
        "waited".rjust(TIME),
        "ran".rjust(TIME),
    ]
    parts += [charset.fit("thread", sheet.thread)] if sheet.thread else []
    parts += [charset.fit("after", sheet.after)] if sheet.after else []
    parts += [charset.fit("at", sheet.site)] if sheet.site else []
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
        ("" if row.seq == NONE else str(row.seq)).rjust(numbers),
        charset.fit(duration(row.t - first), times, right=True),
        f"t{row.thread}",
        f"b{row.backward}" if row.backward != NONE else "  ",
        row.kind.ljust(kinds),
        charset.fit(row.node, nodes),
        charset.text(row.details),
    ]
