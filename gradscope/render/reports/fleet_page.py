"""The page of an answer about a fleet: a map of ranks and steps for each run, and the rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

import orjson

from gradscope.fleet.asking.answer import FleetAnswer
from gradscope.render.text import visible
from gradscope.render.viewer.css import themes_css
from gradscope.render.viewer.page import policy
from gradscope.render.views.fleet_answer import cell, rows_scene
from gradscope.scene.readable import byte_count, duration
from gradscope.scene.table_scenes import TableScene

FOLDER = Path(__file__).parent
HEATS = 5
MOST_RUNS = 12
"""Number of runs that have a map."""
MOST_ROWS = 500
WIDTH, LEFT, HEIGHT = 900, 46, 7
SKEWED = 50
"""From this ratio of the largest to the median value on, colours are on a logarithmic scale.

Zeros do not count for the median; they have the first colour.
"""
SAID = ("run", "rank", "step", "value")
"""What the page says of a cell."""


@dataclass(frozen=True, slots=True)
class CellScale:
    """The colours of values: equal on the maps of all runs."""

    least: float
    low: float  # the least that is not zero, on a logarithmic scale
    high: float
    is_log: bool

    def heat(self, value: float) -> int:
        """The number of the colour, 0 for the lowest values."""
        low, high, at = (self._on(each) for each in (self.low, self.high, value))
        part = (at - low) / (high - low) if high > low else 0.0
        return min(int(part * HEATS), HEATS - 1)

    def bounds(self) -> list[float]:
        """Where the colours begin, and where the last one ends."""
        low, high = self._on(self.low), self._on(self.high)
        cuts = [low + (high - low) * each / HEATS for each in range(HEATS + 1)]
        return [self.least, *(math.exp(each) if self.is_log else each for each in cuts[1:])]

    def _on(self, value: float) -> float:
        return math.log(max(value, self.low)) if self.is_log else value


def fleet_page(answer: FleetAnswer, fleet: str) -> bytes:
    """The page, as one file that loads nothing."""
    style = f"\n{themes_css()}{(FOLDER / 'fleet_page.css').read_text(encoding='utf-8')}"
    code = (FOLDER / "fleet_page.js").read_text(encoding="utf-8")
    cells = answer.plot.to_pylist() if answer.plot is not None else []
    facts = [
        {"next": _view(each, answer.traces), **{name: each[name] for name in SAID}}
        for each in cells
    ]
    data = orjson.dumps(facts).decode().replace("<", "\\u003c")
    body = "\n".join(_body(answer, fleet, cells))
    return (
        '<!doctype html>\n<html lang="en" data-theme="">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(style, code)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>gradscope</title>\n<style>{style}</style>\n</head>\n<body>\n{body}\n"
        f'<script type="application/json" id="cells">{data}</script>\n'
        f"<script>{code}</script>\n</body>\n</html>\n"
    ).encode()


def _body(answer: FleetAnswer, fleet: str, cells: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    question = answer.question
    yield f"<header><h1>{_text(question.title)}</h1>"
    yield f"<p>{_text(question.name)}, asked of <code>{_text(fleet)}</code></p></header>\n<main>"
    for note in answer.notes:
        yield f'<p class="note">{_text(note)}</p>'
    if question.plot is not None and cells:
        yield f'<section aria-labelledby="map"><h2 id="map">{_text(question.plot.title)}</h2>'
        yield from _maps(answer, cells)
        yield "</section>"
    if answer.rows:
        yield '<section aria-labelledby="rows"><h2 id="rows">answer</h2>'
        yield from _table(rows_scene(answer, MOST_ROWS, frozenset({"line_hash"})))
        yield f"<p>{_text(' '.join(question.words.split()))}</p></section>"
    if answer.next:
        yield f"<p>next: <code>{_text(answer.next)}</code></p>"
    yield "</main>"


def _maps(answer: FleetAnswer, cells: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    plot = answer.question.plot
    assert plot is not None
    scale, named = _scale([each["value"] for each in cells]), _named(answer)
    yield from _legend(scale, plot.unit)
    by_rank, by_step = cells[0]["rank_bin"], cells[0]["step_bin"]
    row, column = _several(by_rank, "rank"), _several(by_step, "step")
    largest = " Its colour is that of its largest value." if by_rank * by_step > 1 else ""
    yield (
        f'<p id="chosen" role="status">A row is {row}, a column {column}. Choose a cell.{largest}'
        "</p>"
    )
    runs = [(run, [*rows]) for run, rows in groupby(enumerate(cells), lambda e: e[1]["run"])]
    yield '<div class="maps">'
    for run, rows in runs[:MOST_RUNS]:
        yield from _map(run, rows, scale, named, plot.title)
    yield "</div>"
    if len(runs) > MOST_RUNS:
        yield f"<p>{len(runs) - MOST_RUNS} more runs are not drawn: choose some with --run</p>"


def _several(many: int, what: str) -> str:
    return f"a {what}" if many == 1 else f"{many} {what}s"


def _named(answer: FleetAnswer) -> set[tuple[str, int, int]]:
    """The runs, ranks and steps that the answer names."""
    found = set()
    for row in answer.rows:
        step = next((row[name] for name in ("step", "differs") if row.get(name) is not None), None)
        ranks = row.get("odd") or row.get("ranks") or [row.get("rank")]
        if step is not None and "run" in row:
            found |= {(row["run"], rank, step) for rank in ranks if rank is not None}
    return found


def _scale(values: Sequence[float]) -> CellScale:
    ordered = sorted(values)
    above = [each for each in ordered if each > 0]
    least, high = ordered[0], ordered[-1]
    skewed = bool(above) and least >= 0 and high > SKEWED * above[len(above) // 2]
    return CellScale(least, above[0] if skewed else least, high, skewed)


def _legend(scale: CellScale, unit: str) -> Iterator[str]:
    bounds = scale.bounds()
    yield '<ul class="legend">'
    last = HEATS if scale.high > scale.low else 1
    for heat in range(last):
        upper = f" to {_number(bounds[heat + 1], unit)}" if last > 1 else ""
        words = f"{_number(bounds[heat], unit)}{upper}"
        yield f'<li><i class="heat{heat}"></i>{_text(words)}</li>'
    yield '<li><i class="named"></i>named in the answer</li></ul>'


def _map(
    run: str,
    rows: Sequence[tuple[int, Mapping[str, Any]]],
    scale: CellScale,
    named: set[tuple[str, int, int]],
    title: str,
) -> Iterator[str]:
    columns = max(each["at_step"] for _, each in rows) + 1
    lines = max(each["at_rank"] for _, each in rows) + 1
    wide = max(min((WIDTH - LEFT) / columns, 24), 4)
    high = max(min(240 / lines, 18), HEIGHT)
    width, height = LEFT + columns * wide, lines * high + 18
    label = f"{title} of run {run}: {lines} rows of ranks, {columns} columns of steps"
    yield f"<figure><figcaption>run {_text(run)}</figcaption>"
    yield (
        f'<div class="map" tabindex="0" role="group" aria-label="{_text(label)}. '
        f'Arrow keys choose a cell.">'
        f'<svg role="img" aria-label="{_text(label)}" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}">'
    )
    by_rank, by_step = rows[0][1]["rank_bin"], rows[0][1]["step_bin"]
    marks = {(rank // by_rank, step // by_step) for its, rank, step in named if its == run}
    for at, each in rows:
        x, y = LEFT + each["at_step"] * wide, each["at_rank"] * high
        kind = f"heat{scale.heat(each['value'])}"
        if (each["at_rank"], each["at_step"]) in marks:
            kind += " named"
        yield (
            f'<rect class="{kind}" data-cell="{at}" data-row="{each["at_rank"]}" '
            f'data-column="{each["at_step"]}" x="{x:.1f}" y="{y:.1f}" width="{wide - 0.6:.1f}" '
            f'height="{high - 0.6:.1f}"/>'
        )
    yield from _labels(rows, lines, wide, high)
    yield "</svg></div></figure>"


def _labels(
    rows: Sequence[tuple[int, Mapping[str, Any]]], lines: int, wide: float, high: float
) -> Iterator[str]:
    """The first rank of some rows, and the first step of some columns."""
    first = rows[0][1]
    apart = max(round(14 / high), 1)
    for at in sorted({each["at_rank"] for _, each in rows})[::apart]:
        y, rank = at * high + high / 2 + 4, at * first["rank_bin"]
        yield f'<text x="{LEFT - 5}" y="{y:.1f}" text-anchor="end">{rank}</text>'
    apart = max(round(60 / wide), 1)
    for at in sorted({each["at_step"] for _, each in rows})[::apart]:
        x, step = LEFT + at * wide, at * first["step_bin"]
        yield f'<text x="{x:.1f}" y="{lines * high + 13:.1f}">{step}</text>'


def _table(scene: TableScene) -> Iterator[str]:
    heads = "".join(
        f'<th scope="col"{" class=number" * each.is_number}>{_text(each.title)}</th>'
        for each in scene.columns
    )
    yield '<div class="table" tabindex="0" role="region" aria-label="Rows of the answer">'
    yield f"<table><thead><tr>{heads}</tr></thead><tbody>"
    for row in scene.rows:
        cells = "".join(
            f"<td{' class=number' * column.is_number}>{_text(text)}</td>"
            for text, column in zip(row, scene.columns, strict=True)
        )
        yield f"<tr>{cells}</tr>"
    yield "</tbody></table></div>"
    if scene.note:
        yield f"<p>{_text(scene.note)}</p>"


def _view(each: Mapping[str, Any], traces: Mapping[tuple[str, int], str]) -> str:
    """The command that shows the step of a cell."""
    trace = traces.get((each["run"], each["rank"]))
    return f"gradscope view --step {each['step']} {trace}" if trace else ""


def _number(value: float, unit: str) -> str:
    if unit == "ns":
        return duration(round(value))
    return byte_count(round(value)) if unit == "bytes" else cell("", float(value))


def _text(text: str) -> str:
    return escape(visible(text, 4_000), quote=True)
