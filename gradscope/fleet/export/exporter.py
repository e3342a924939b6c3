"""Adds the traces of ranks to a fleet.

Note [Killed at any moment]
Files are written in a folder of their own, then renamed to their places; the list of files
(manifest.py) is renamed last. An export that is killed before that leaves files that the list does
not name, or that differ from it; the next export writes these again, or removes them. So nothing
is added twice, and a rank is complete or as it was before, with newer rows at most.

Note [A trace that grows]
Rows of steps that had ended may still change: a value that a step saved is released later, and
nodes that no backward has reached are recorded when the program ends. So each export makes the
rows of all steps again. It writes those files whose rows differ from what the list says. If the
recording keeps only its latest steps (`--keep`), steps that were exported stay as they were then.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gradscope.errors import UsageError
from gradscope.fleet import manifest as lists
from gradscope.fleet.export.blocks import StepBlock, blocks_of, cut
from gradscope.fleet.export.cells import FleetCells
from gradscope.fleet.export.locking import locked
from gradscope.fleet.export.parquet import pyarrow, read_rows, write_parquet
from gradscope.fleet.export.rows.act_rows import act_rows, finding_rows, findings
from gradscope.fleet.export.rows.call_rows import collective_rows, op_rows
from gradscope.fleet.export.rows.engine_rows import event_rows, node_rows, saved_rows
from gradscope.fleet.export.rows.once_rows import meta_rows, module_rows, parameter_rows
from gradscope.fleet.export.rows.rank_trace import RankTrace, StepOrder
from gradscope.fleet.export.rows.step_rows import step_rows
from gradscope.fleet.export.rows.value_rows import grad_rows, value_rows
from gradscope.fleet.export.trace_digests import TraceDigests, digests
from gradscope.fleet.first_bad import first_bad
from gradscope.fleet.manifest import FileFacts, FleetPart, Manifest
from gradscope.fleet.places import (
    ALL,
    checked_run,
    lock_path,
    manifest_path,
    part_name,
    rank_folder,
    writing_folder,
)
from gradscope.fleet.tables import TABLES
from gradscope.trace.file.progress import tell
from gradscope.trace.load_save import load
from gradscope.trace.text import quoted_path
from gradscope.trace.trace import Trace

TableRows = tuple[StepOrder, Mapping[str, FleetCells]]
BY_STEP: Mapping[str, Callable[[RankTrace], TableRows]] = {
    "step": step_rows,
    "value": value_rows,
    "grad": grad_rows,
    "event": event_rows,
    "node": node_rows,
    "op": op_rows,
    "saved": saved_rows,
    "collective": collective_rows,
    "act": act_rows,
}
"""Every table with rows by step, and what makes its rows."""


@dataclass(frozen=True, slots=True)
class Added:
    """What an export has added of one trace."""

    rank: int
    rows: int = 0  # of new steps, and further rows of others
    bytes: int = 0  # of the files that were written
    steps: int = 0  # number of steps that were not in the fleet before
    running: tuple[int, ...] = ()  # numbers of steps that had not ended, and are not added
    faults: tuple[str, ...] = ()  # rules that could not run, in words


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What an export is to do."""

    commit: str | None = None
    unfinished: bool = False  # add the last step of a trace that was not closed
    findings: bool = True
    replace: bool = False  # what the fleet has of another recording


class Exporter:
    """Adds traces to one run of a fleet."""

    def __init__(self, fleet: Path, run: str, options: ExportOptions) -> None:
        self.fleet, self.run, self.options = fleet, checked_run(run), options
        pyarrow()  # raises if it is missing, before any work
        if fleet.exists() and not fleet.is_dir():
            raise UsageError(f"{quoted_path(fleet)} is not a folder; choose another one with --to")

    def add(self, path: Path) -> Added:
        """Add what the fleet does not have of a trace.

        Raises UnreadableTraceError, and UsageError if it is not the trace of one rank, or if the
        fleet has another recording of this rank.
        """
        found = digests(path)
        for known in lists.manifests(self.fleet, self.run):
            if known.trace == found.whole and self._is_up_to_date(known, found):
                return Added(known.rank)
        trace = load(path)
        if "ranks" in trace.meta:
            raise UsageError(
                f"{quoted_path(path)} holds several ranks: export the traces that it was merged "
                "from"
            )
        rank = int(trace.meta.get("rank", 0))
        with locked(lock_path(self.fleet, self.run, rank)):
            return self._add(path, trace, rank, found)

    def _is_up_to_date(self, known: Manifest, found: TraceDigests) -> bool:
        """Whether the fleet has all of this trace, and its files are there."""
        if known.trace != found.whole or known.options != self._settings(known):
            return False
        files = ((path, facts) for _, path, facts in known.files(self.fleet))
        return all(facts.fits(path) for path, facts in files)

    def _settings(self, known: Manifest | None) -> dict[str, object]:
        """What changes the rows. What was given once holds for later exports of the same rank."""
        before = {} if known is None else known.options
        return {
            "commit": self.options.commit or before.get("commit"),
            "unfinished": self.options.unfinished or bool(before.get("unfinished")),
            "findings": self.options.findings,
        }

    def _add(self, path: Path, trace: Trace, rank: int, found: TraceDigests) -> Added:
        known = lists.read(manifest_path(self.fleet, self.run, rank))
        if known is not None and self._is_up_to_date(known, found):
            return Added(rank)  # another export has added it meanwhile
        if known is not None and known.recording != found.recording:
            self._replace_other(path, known)
            known = None
        settings = self._settings(known)
        of = RankTrace(trace, unfinished=bool(settings["unfinished"]))
        if known is not None and not of.lets_go and any(_lacks(of, part) for part in known.parts):
            self._replace_longer(path, known)
            known = None
        before = known or Manifest(self.run, rank, found.recording, "")
        shutil.rmtree(writing_folder(self.fleet, self.run, rank), ignore_errors=True)
        is_final = not trace.truncated and not any(
            facts.digest for part in before.parts for facts in part.files.values()
        )
        rank_files = RankFiles(
            self.fleet, before, is_final=is_final, is_same=before.trace == found.whole
        )
        faults = rank_files.write_all(of, settings)
        now = replace(
            rank_files.now, trace=found.whole, recording=found.recording, options=settings
        )
        rank_files.publish(now)
        steps = {part.first: part.last for part in before.parts if part.first is not None}
        done = max((last for last in steps.values() if last is not None), default=-1)
        return Added(
            rank,
            now.rows - before.rows,
            rank_files.written,
            sum(step.number > done for step in of.steps if step.id in of.recorded),
            tuple(step.number for step in of.running),
            faults,
        )

    def _replace_other(self, path: Path, known: Manifest) -> None:
        if not self.options.replace:
            raise UsageError(
                f"{quoted_path(path)} is another recording of rank {known.rank} than the one that "
                f"run {self.run} has: choose another --run, or add --replace"
            )
        remove(self.fleet, known)

    def _replace_longer(self, path: Path, known: Manifest) -> None:
        if not self.options.replace:
            raise UsageError(
                f"{quoted_path(path)} lacks steps that run {self.run} has of rank {known.rank}: it "
                "is an older or shorter copy of that trace. Export the longer one, or add --replace"
            )
        remove(self.fleet, known)


def _lacks(of: RankTrace, part: FleetPart) -> bool:
    """Whether the trace has fewer steps of a block than the fleet."""
    if part.first is None or part.last is None:
        return False
    return of.recorded_from(part.first, part.last) < part.steps


def remove(fleet: Path, known: Manifest) -> None:
    """Remove a rank of a run: first its list, so that it is complete or not there."""
    manifest_path(fleet, known.run, known.rank).unlink(missing_ok=True)
    for _, path, _ in known.files(fleet):
        path.unlink(missing_ok=True)


class RankFiles:
    """Writes the files of one rank. See Note [Killed at any moment]."""

    def __init__(self, fleet: Path, before: Manifest, *, is_final: bool, is_same: bool) -> None:
        self._is_final = is_final  # the trace is closed, and no digest of its steps is needed
        self._is_same = is_same  # as when it was exported before
        self._fleet, self._before = fleet, before
        self.now = replace(before, parts=(), once={})
        self.written = 0
        self._aside: list[tuple[Path, Path]] = []

    def write_all(self, of: RankTrace, settings: Mapping[str, object]) -> tuple[str, ...]:
        """Write all tables; returns which rules could not run."""
        known = [StepBlock(part.first, part.last) for part in self._before.parts]
        blocks = blocks_of(of, known)
        if of.lets_go:
            self._keep_what_went(of)
        kept = {part.first for part in self.now.parts}
        for name, make in BY_STEP.items():
            tell(f"exporting table {name}")
            order, columns = make(of)
            every = {**order.keys(), **columns}
            for block, first, end in cut(order, blocks):
                if end > first and block.first not in kept:
                    steps = 0
                    if block.first is not None and block.last is not None:
                        steps = of.recorded_from(block.first, block.last)
                    part = FleetPart(block.first, block.last, steps, {})
                    self._put_part(part, name, _part(every, first, end))
        commit = settings["commit"]
        self._put_once("module", module_rows(of))
        self._put_once("parameter", parameter_rows(of))
        self._put_once("meta", meta_rows(of, None if commit is None else str(commit)))
        faults: tuple[str, ...] = ()
        if settings["findings"]:
            found, faults = findings(of.trace)
            self._put_once("finding", finding_rows(of, found))
        self._put_once("line", of.lines.rows())
        return faults

    def _keep_what_went(self, of: RankTrace) -> None:
        """Keep all blocks as they are, and the lines that they refer to.

        The recording may have let some of their steps go, and then has a part of their rows only.
        """
        for part in self._before.parts:
            if part.first is not None:
                self.now = lists.with_part(self.now, part)
        path = rank_folder(self._fleet, "line", self.now.run, self.now.rank) / ALL
        if self._before.once and path.exists():
            for row in read_rows(path):
                line = row["file"] or "", row["function"] or "", row["text"] or "", row["line"]
                of.lines.keep(row["line_hash"], line)

    def _put_part(self, part: FleetPart, table: str, columns: Mapping[str, FleetCells]) -> None:
        before = next((p for p in self._before.parts if p.first == part.first), None)
        known = None if before is None else before.files.get(table)
        facts = self._put(table, part_name(part.first), columns, known)
        so_far = next((p for p in self.now.parts if p.first == part.first), part)
        part = replace(part, files={**so_far.files, table: facts})
        self.now = lists.with_part(self.now, part)

    def _put_once(self, table: str, columns: Mapping[str, FleetCells]) -> None:
        facts = self._put(table, ALL, columns, self._before.once.get(table))
        self.now = replace(self.now, once={**self.now.once, table: facts})

    def _put(
        self, table: str, name: str, columns: Mapping[str, FleetCells], known: FileFacts | None
    ) -> FileFacts:
        """Write a file aside, unless the fleet has it."""
        rows = len(columns[TABLES[table].names[0]].values)
        digest = "" if self._is_final and TABLES[table].by_step else _digest(table, columns)
        to = rank_folder(self._fleet, table, self.now.run, self.now.rank) / name
        is_known = known is not None and known.digest == digest and known.fits(to)
        if known is not None and is_known and (digest or self._is_same):
            return known
        folder = writing_folder(self._fleet, self.now.run, self.now.rank)
        folder.mkdir(parents=True, exist_ok=True)
        aside = folder / f"{table}.{name}"
        size = write_parquet(aside, TABLES[table], columns)
        self._aside.append((aside, to))
        self.written += size
        return FileFacts(rows, size, digest, first_bad(table, columns))

    def publish(self, now: Manifest) -> None:
        """Move the files to their places, then list them; remove those that are not listed."""
        for aside, to in self._aside:
            to.parent.mkdir(parents=True, exist_ok=True)
            aside.replace(to)
        lists.write(self._fleet, now)
        listed = {path for _, path, _ in now.files(self._fleet)}
        for path in _files_of(self._fleet, now):
            if path not in listed:
                path.unlink(missing_ok=True)
        shutil.rmtree(writing_folder(self._fleet, now.run, now.rank), ignore_errors=True)


def _files_of(fleet: Path, of: Manifest) -> Iterator[Path]:
    for table in TABLES:
        yield from rank_folder(fleet, table, of.run, of.rank).glob("part-*.parquet")


def _part(columns: Mapping[str, FleetCells], first: int, end: int) -> dict[str, FleetCells]:
    return {name: cells.part(first, end) for name, cells in columns.items()}


def _digest(table: str, columns: Mapping[str, FleetCells]) -> str:
    found = hashlib.blake2b(digest_size=16)
    for name in TABLES[table].names:
        found.update(name.encode() + b"\0" + columns[name].digest())
    return found.hexdigest()
