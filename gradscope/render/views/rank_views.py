"""Ranks and steps in a terminal: a character for each cell."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text

from gradscope.render.terminal.cells import Charset, line, wrapped
from gradscope.render.terminal.plot import TimeAxis, busy_cells, painted, ruler
from gradscope.render.terminal.styles import ACCENT, ALARM, BOLD, GOOD, SOFT, WARN
from gradscope.scene.choices import RankHeat
from gradscope.scene.timeline.rank_heat import LESS, LEVEL_WORDS, MORE, MOST, MUCH, SAME, HeatScene
from gradscope.scene.timeline.rank_lanes import RankLanes
from gradscope.trace.schema import NONE

GAP = "  "
STYLES = {NONE: "", LESS: GOOD, SAME: SOFT, MORE: ACCENT, MUCH: WARN, MOST: ALARM}
LABELS = 30
"""Most cells of the names of ranks."""


def columns_in(width: int) -> int:
    """How many steps fit into a line."""
    return width - min(LABELS, width // 3) - 2 * len(GAP)


def heat_lines(scene: HeatScene, width: int, charset: Charset) -> Iterator[Text]:
    """The lines, each at most `width` cells wide."""
    longest = max(cell_len(row.title) for row in scene.rows)
    labels = min(longest, LABELS, width // 3)
    yield line((charset.fit(f"ranks by step: {scene.title}", width).rstrip(), BOLD))
    head = charset.fit("", labels)
    yield line((f"{GAP}{head}{GAP}{_ruler(scene.columns)}"[:width].rstrip(), SOFT))
    signs = _signs(scene.what, charset)
    for row in scene.rows:
        cells = [(signs.get(level, "?"), STYLES.get(level, ALARM)) for level in row.levels]
        yield line(f"{GAP}{charset.fit(row.title, labels)}{GAP}", *cells)
    for note in (_key(scene, signs), *scene.notes):
        for part in wrapped(charset, note, width - len(GAP)):
            yield line((f"{GAP}{part}", SOFT))


def rank_lane_lines(scene: RankLanes, width: int, charset: Charset) -> Iterator[Text]:
    """The lanes of ranks on one axis, each line at most `width` cells wide."""
    left = max(len(lane.title) for lane in scene.lanes)
    right = max(cell_len(charset.text(lane.words)) for lane in scene.lanes)
    axis = TimeAxis(scene.begin, scene.end, max(width - left - right - 3 * len(GAP), 8))
    yield line((charset.fit(scene.title, width).rstrip(), BOLD))
    rule = ruler(scene.end - scene.begin, axis.width, charset)
    yield line((charset.fit(f"{GAP}{' ' * left}{GAP}{rule}", width).rstrip(), SOFT))
    for lane in scene.lanes:
        cells = busy_cells(lane.spans, axis, charset, lane.asleep)
        words = f"{GAP}{charset.text(lane.words)}" if lane.words else ""
        yield line(f"{GAP}{charset.fit(lane.title, left)}{GAP}", *painted(cells), words)
    key = f"key: {charset.run} running, {charset.some} for less than half the column, "
    for note in (f"{key}{charset.wait} waiting for another rank", *scene.notes):
        for part in wrapped(charset, note, width - len(GAP)):
            yield line((f"{GAP}{part}", SOFT))


def _ruler(columns: tuple[int, ...]) -> str:
    """The numbers of steps above their columns, where there is room for them."""
    drawn = ""
    for place, number in enumerate(columns):
        if place % 10 == 0 and len(drawn) <= place:
            drawn += " " * (place - len(drawn)) + f"{number} "
    return drawn


def _signs(what: RankHeat, charset: Charset) -> dict[int, str]:
    if what is RankHeat.ALIKE:
        letters = enumerate("bcdefghijklmnopqrstuvwxyz", MORE)
        signs = {SAME: charset.text("·"), **dict(letters)}
    elif charset.plain:
        signs = {LESS: "'", SAME: "-", MORE: "+", MUCH: "x", MOST: "#"}
    else:
        signs = {LESS: "˗", SAME: "·", MORE: "▒", MUCH: "▓", MOST: "█"}
    return {NONE: " ", **signs}


def _key(scene: HeatScene, signs: dict[int, str]) -> str:
    """The meaning of the characters that are in the table."""
    seen = {level for row in scene.rows for level in row.levels}
    parts = [
        f"{signs[level]} {said}" for level, said in LEVEL_WORDS[scene.what].items() if level in seen
    ]
    parts += ["blank: not recorded"] * (NONE in seen)
    return f"key: {', '.join(parts)}"
