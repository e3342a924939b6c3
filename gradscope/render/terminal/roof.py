"""A roofline plot in characters: speed of pieces by arithmetic intensity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor, log10

from gradscope.analysis.answers.roofline import Cost, Peaks, Roofline
from gradscope.render.terminal.cells import Charset
from gradscope.scene.answers.roofline import LETTERS, rate

HEIGHT = 14
MARGIN = 15
LEAST_WIDTH = 30
FEW = 5
"""Number of pieces that are always plotted."""
LEAST = 0.01
"""Operations per byte below which a piece only moves memory."""


def roof_lines(found: Roofline, width: int, charset: Charset) -> Iterator[str]:
    """The plot; both axes are logarithmic."""
    costs = _plotted(found)
    columns = min(width, 100) - MARGIN
    if not costs or columns < LEAST_WIDTH:
        return
    plot = _Plot(costs, found.peaks, columns)
    flat, slope = ("-", "/") if charset.plain else ("─", "╱")
    rows = [[" "] * columns for _ in range(HEIGHT)]
    for column in range(columns):
        height = plot.roof(column)
        if 0 <= height < HEIGHT:
            rows[height][column] = flat if plot.is_flat(column) else slope
    for nr, cost in enumerate(found.costs[: len(LETTERS)]):
        if cost in costs:
            row, column = plot.place(cost)
            rows[row][column] = LETTERS[nr]
    edge = charset.left if not charset.plain else "|"
    for row in range(HEIGHT - 1, -1, -1):
        label = rate(plot.speed(row), "flop") if row in (0, HEIGHT // 2, HEIGHT - 1) else ""
        yield f"{label:>{MARGIN - 2}} {edge}{''.join(rows[row])}".rstrip()
    low, high = f"{plot.low:g} flop/B", f"{plot.high:g} flop/B"
    yield " " * MARGIN + low + high.rjust(columns - len(low))


def _plotted(found: Roofline) -> list[Cost]:
    """Pieces that take enough time and do arithmetic."""
    whole = sum(cost.typical_ns for cost in found.costs)
    return [
        cost
        for nr, cost in enumerate(found.costs[: len(LETTERS)])
        if cost.flops and cost.bytes and (nr < FEW or cost.typical_ns >= whole / 100)
        if cost.typical_ns and cost.intensity >= LEAST
    ]


class _Plot:
    """The scales of the plot."""

    def __init__(self, costs: Sequence[Cost], peaks: Peaks, columns: int) -> None:
        self._peaks, self._columns = peaks, columns
        meet = peaks.flops / peaks.bandwidth
        found = [cost.intensity for cost in costs]
        self.low = 10.0 ** floor(
            log10(min(*found, meet) if len(found) > 1 else min(found[0], meet))
        )
        self.high = 10.0 ** ceil(log10(max([*found, 4 * meet])))
        speeds = [cost.flops / cost.typical_ns * 1e9 for cost in costs]
        self._least = log10(min(speeds) / 2)
        self._most = log10(max([*speeds, peaks.flops]) * 1.5)

    def _intensity(self, column: int) -> float:
        share = column / (self._columns - 1)
        return float(10 ** (log10(self.low) + share * (log10(self.high) - log10(self.low))))

    def _row(self, speed: float) -> int:
        share = (log10(speed) - self._least) / (self._most - self._least)
        return round(share * (HEIGHT - 1))

    def roof(self, column: int) -> int:
        speed = min(self._peaks.flops, self._intensity(column) * self._peaks.bandwidth)
        return self._row(speed)

    def is_flat(self, column: int) -> bool:
        """Whether arithmetic is the limit in this column."""
        return self._intensity(column) * self._peaks.bandwidth >= self._peaks.flops

    def speed(self, row: int) -> float:
        return float(10 ** (self._least + row / (HEIGHT - 1) * (self._most - self._least)))

    def place(self, cost: Cost) -> tuple[int, int]:
        """The row and column of a piece."""
        share = (log10(cost.intensity) - log10(self.low)) / (log10(self.high) - log10(self.low))
        column = min(max(round(share * (self._columns - 1)), 0), self._columns - 1)
        row = self._row(cost.flops / cost.typical_ns * 1e9)
        return min(max(row, 0), HEIGHT - 1), column
