"""The answer to a question: its rows, and in words what was left out or not recorded."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import Formatter
from typing import TYPE_CHECKING, Any, TypeVar

from gradscope.errors import DamagedPartError, UsageError
from gradscope.fleet.asking.clusters import Cluster, ThisProcess, many_parts
from gradscope.fleet.asking.damage import damaged_among
from gradscope.fleet.asking.division import AskedPart, Division
from gradscope.fleet.asking.engine import PartWork, from_bytes, run_part, run_sum, to_bytes
from gradscope.fleet.asking.folder import Fleet
from gradscope.fleet.asking.line_places import traces_of, with_places
from gradscope.fleet.asking.listed import bad_elsewhere, listed_first_bad
from gradscope.fleet.asking.not_recorded import lacking, ranks_without
from gradscope.fleet.asking.question import BY_RANK, BY_STEP, Parameter, Question, QuestionStage
from gradscope.fleet.first_bad import COPIES
from gradscope.fleet.tables import TABLES

if TYPE_CHECKING:
    import pyarrow as pa

Result = TypeVar("Result")
LARGEST_PART = 256 << 20
"""Largest size in bytes of the files of a part that compares ranks, in this process."""

MOST_RANK_CELLS, MOST_STEP_CELLS = 64, 160
"""Size of the map of a page; of more ranks and steps, some share a cell."""
CELLS = """
    SELECT run, rank // $rank_bin AS at_rank, step // $step_bin AS at_step,
           max(value)::DOUBLE AS value, arg_max(rank, (value, -rank, -step)) AS rank,
           arg_max(step, (value, -rank, -step)) AS step
    FROM ROWS WHERE value IS NOT NULL AND isfinite(value::DOUBLE)
    GROUP BY run, rank // $rank_bin, step // $step_bin
"""
"""A cell has the largest value of its ranks and steps, and where that is first."""


@dataclass(frozen=True)
class FleetAnswer:
    """Rows, and what there is to say about them."""

    question: Question
    rows: list[dict[str, Any]]
    table: pa.Table
    notes: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()  # files that were left out
    plot: pa.Table | None = None  # see CELLS
    next: str = ""
    traces: Mapping[tuple[str, int], str] = field(default_factory=dict)  # by run and rank


@dataclass
class Asking:
    """One question to a fleet, part by part."""

    fleet: Fleet
    question: Question
    parameters: Mapping[str, Parameter]
    cluster: Cluster = field(default_factory=ThisProcess)
    many: int = 0  # number of parts; 0: what suits the cluster
    without: set[str] = field(default_factory=set)

    def answer(self, *, plot: bool = False) -> FleetAnswer:
        """Ask all parts. Files that are damaged are left out, and named."""
        asked = self.fleet.asked
        if self.question.compares_ranks and len(asked.ranks) == 1:
            raise UsageError(
                f"{self.question.name} compares ranks, so one rank has no answer; "
                "name several with --rank, or leave it out"
            )
        table = self._readable(self._asked)
        drawn, traces = None, {}
        if plot:
            drawn = self._readable(self._plotted)
            traces = self._readable(lambda: traces_of(self.fleet, self.without))
        table = self._readable(lambda: with_places(self.fleet, table, self.without))
        rows = table.to_pylist()
        return FleetAnswer(
            self.question, rows, table, tuple(self._notes(rows)), tuple(sorted(self.without)),
            drawn, self._next(rows), traces,
        )  # fmt: skip

    def _readable(self, work: Callable[[], Result]) -> Result:
        """The result of the work, done again without files that turn out to be damaged."""
        while True:
            try:
                return work()
            except DamagedPartError:
                found = self._damaged()
                if not found - self.without:
                    raise
                self.without |= found

    def _damaged(self) -> set[str]:
        found: set[str] = set()
        for table in {*self.question.reads, "line", "meta"}:
            files = [each.path for each in self.fleet.files(table) if each.path not in self.without]
            names, root = TABLES[table].names, str(self.fleet.root)
            if files:
                found |= {*damaged_among(root, table, files, names, self.cluster)}
        return found

    def _asked(self) -> pa.Table:
        found: bytes | None = None
        table: pa.Table | None = None
        for stage in self.question.stages:
            table = self._summed(stage, found)
            found = to_bytes(table)
        assert table is not None
        return table

    def _summed(self, stage: QuestionStage, found: bytes | None) -> pa.Table:
        listed = self._listed() if stage.listed else None
        if listed is not None:
            return run_sum([listed], stage.sum, self._bound, found)
        works = [self._work(part, stage.part, found) for part in self._parts(stage, found)]
        parts = self.cluster.map(run_part, works)
        return run_sum(parts, stage.sum, self._bound, found)

    def _listed(self) -> bytes | None:
        """The first step with NaN or Inf of each rank as exports list it; None: read the files."""
        if self.without or self.fleet.asked.steps is not None:
            return None
        return listed_first_bad(self.fleet, self._bad)

    @property
    def _bad(self) -> str:
        """What counts, as exports list it: NaN and Inf, or NaN only."""
        return "nan" if self.parameters.get("nan_only") else "bad"

    def _plotted(self) -> pa.Table | None:
        plot = self.question.plot
        if plot is None:
            return None
        division = Division(self.fleet, plot.reads, self.without)
        sizes = {
            "rank_bin": -(-(self.fleet.last_rank + 1) // MOST_RANK_CELLS),
            "step_bin": -(-(division.last_step() + 1) // MOST_STEP_CELLS),
        }
        works = [
            replace(work, parameters={**work.parameters, **sizes})
            for part in division.parts(BY_RANK, self._many)
            for work in [self._work(part, CELLS.replace("ROWS", f"({plot.part})"), None)]
        ]
        sql = """
            SELECT run, at_rank, at_step, max(value) AS value,
                   arg_max(rank, (value, -rank, -step)) AS rank,
                   arg_max(step, (value, -rank, -step)) AS step,
                   $rank_bin AS rank_bin, $step_bin AS step_bin
            FROM parts GROUP BY run, at_rank, at_step ORDER BY run, at_rank, at_step
        """
        return run_sum(self.cluster.map(run_part, works), sql, sizes)

    def _work(self, part: AskedPart, sql: str, found: bytes | None) -> PartWork:
        threads = 1 if self.cluster.cores else 0  # a cluster runs a part on each core
        root = str(self.fleet.root)
        return PartWork(root, part.files, sql, self._bound, part.steps, found, threads)

    def _parts(self, stage: QuestionStage, found: bytes | None) -> list[AskedPart]:
        tables = stage.reads or self.question.reads
        fleet = self.fleet
        if stage.only_found and found is not None:
            fleet = fleet.only(self._chosen(stage, found))
        division = Division(fleet, tables, self.without)
        many = self._many
        if stage.split == BY_STEP and not self.cluster.cores and not self.many:
            many = division.size() // LARGEST_PART + 1
        return division.parts(stage.split, max(many, stage.parts))

    def _chosen(self, stage: QuestionStage, found: bytes) -> set[tuple[str, int]]:
        """The runs and ranks in `found` that a stage reads; all ranks of a run without a rank."""
        has_rank = "rank" in from_bytes(found).column_names
        names = "run, rank" if has_rank else "run"
        rows = run_sum([found], f"SELECT DISTINCT {names} FROM parts WHERE {stage.only_where}", {})
        if has_rank:
            return {*zip(rows["run"].to_pylist(), rows["rank"].to_pylist(), strict=True)}
        runs = {*rows["run"].to_pylist()}
        return {each for each in self.fleet.traces if each[0] in runs}

    @property
    def _many(self) -> int:
        return self.many or many_parts(self.cluster)

    @property
    def _bound(self) -> dict[str, Any]:
        return {**self.parameters, "last_rank": self.fleet.last_rank, "copies": [*COPIES]}

    def _notes(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """What the answer does not say by itself."""
        lacks: list[str] = []
        if not rows:
            lacks = [*lacking(self.fleet, self.question, self.without)]
            yield from lacks or [self.question.empty]
        if self.fleet.asked.words:
            yield f"asked about {self.fleet.asked.words} only"
            if any(stage.listed for stage in self.question.stages):
                yield from bad_elsewhere(self.fleet, self._bad, rows)
        if rows or not lacks:
            yield from ranks_without(self.fleet, self.question, self.without)
        if self.without:
            shown = sorted(os.path.relpath(each, self.fleet.root) for each in self.without)
            yield (
                f"left out: {len(shown)} damaged file{'s' * (len(shown) > 1)}: "
                f"{', '.join(shown[:5])}{', …' * (len(shown) > 5)}; remove, and export again"
            )

    def _next(self, rows: Sequence[Mapping[str, Any]]) -> str:
        """The command that shows more of the first row that has what the command names."""
        wanted = {name for _, name, _, _ in Formatter().parse(self.question.next) if name}
        for row in rows if self.question.next else ():
            known = {**row, "fleet": str(self.fleet.root)}
            if all(known.get(name) is not None for name in wanted):
                quoted = {name: shlex.quote(str(value)) for name, value in known.items()}
                return self.question.next.format_map(quoted)
        return ""
