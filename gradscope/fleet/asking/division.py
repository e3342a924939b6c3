"""How a fleet is divided: into groups of ranks, or into ranges of steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from gradscope.fleet.asking.engine import PartWork, from_bytes, run_part
from gradscope.fleet.asking.folder import Fleet, PartFile
from gradscope.fleet.asking.question import BY_STEP
from gradscope.fleet.tables import TABLES

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class AskedPart:
    """Files of each table, and the steps of them that belong to this part."""

    files: dict[str, list[str]]
    steps: tuple[int, int] | None = None


@dataclass(frozen=True)
class Division:
    """The files of the tables that a question reads, without those that are damaged."""

    fleet: Fleet
    tables: Sequence[str]
    without: set[str] = field(default_factory=set)

    def size(self) -> int:
        """Size of the files in bytes."""
        paths = (each.path for table in self.tables for each in self._files(table))
        return sum(Path(path).stat().st_size for path in paths)

    def parts(self, split: str, many: int) -> list[AskedPart]:
        """At most so many parts. One part holds all files."""
        files = {table: self._files(table) for table in self.tables}
        whole = AskedPart(_paths(files), self.fleet.asked.steps)
        if many <= 1:
            return [whole]
        return [*(self._by_step if split == BY_STEP else self._by_rank)(files, many)] or [whole]

    def _files(self, table: str) -> list[PartFile]:
        return [each for each in self.fleet.files(table) if each.path not in self.without]

    def _by_rank(self, files: dict[str, list[PartFile]], many: int) -> Iterator[AskedPart]:
        ranks = sorted({(each.run, each.rank) for rows in files.values() for each in rows})
        for group in _even(ranks, many):
            own = {*group}
            chosen = {
                table: [each for each in rows if (each.run, each.rank) in own]
                for table, rows in files.items()
            }
            yield AskedPart(_paths(chosen), self.fleet.asked.steps)

    def _by_step(self, files: dict[str, list[PartFile]], many: int) -> Iterator[AskedPart]:
        bounds = self._bounds(files)
        first, end = self.fleet.asked.steps or (bounds[0], bounds[-1])
        inner = [each for each in bounds if first < each < end]
        cuts = [first, *(group[0] for group in _even(inner, many - 1)), end]
        for begin, stop in pairwise(cuts):
            chosen = {
                table: _touching(rows, begin, stop) if TABLES[table].by_step else rows
                for table, rows in files.items()
            }
            yield AskedPart(_paths(chosen), (begin, stop))

    def _bounds(self, files: dict[str, list[PartFile]]) -> list[int]:
        """Steps at which a file begins, and the end of all.

        If each rank has few files, other steps between them, too: a file may be read by several
        parts, each of which reads other row groups.
        """
        begins = sorted({each.first for rows in files.values() for each in rows}) or [0]
        last = max(self.last_step(), begins[-1]) + 1
        return sorted({*begins, last, *range(begins[0], last, max((last - begins[0]) // 64, 1))})

    def last_step(self) -> int:
        """The last step in the last files of each rank, of one of the tables."""
        files = {name: self._files(name) for name in self.tables if TABLES[name].by_step}
        known = [name for name in files if files[name]]
        if not known:
            return 0
        table = min(known, key=lambda name: len(files[name]))
        last = {(each.run, each.rank): each.path for each in files[table]}
        sql = f'SELECT coalesce(max(step), 0) AS step FROM "{table}"'
        work = PartWork(str(self.fleet.root), {table: [*last.values()]}, sql)
        return int(from_bytes(run_part(work)).to_pylist()[0]["step"])


def _touching(rows: Sequence[PartFile], begin: int, stop: int) -> list[PartFile]:
    """The files that may hold one of these steps; `rows` are ordered by run, rank and step."""
    found = []
    for at, each in enumerate(rows):
        after = rows[at + 1] if at + 1 < len(rows) else None
        goes_on = after is not None and (after.run, after.rank) == (each.run, each.rank)
        ends = after.first if after is not None and goes_on else None
        if each.first < stop and (ends is None or ends > begin):
            found.append(each)
    return found


def _even(items: Sequence[Item], many: int) -> Iterator[Sequence[Item]]:
    """The items in at most so many groups of about the same size."""
    many = max(min(many, len(items)), 1)
    for at in range(many):
        group = items[len(items) * at // many : len(items) * (at + 1) // many]
        if group:
            yield group


def _paths(files: dict[str, list[PartFile]]) -> dict[str, list[str]]:
    return {table: [each.path for each in rows] for table, rows in files.items()}
