"""The files of a fleet, by table, run and rank, as their paths name them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote

from gradscope.errors import UnknownNameError, UnreadableTraceError, UsageError

RUN, RANK, PART = "run=", "rank=", "part-"


@dataclass(frozen=True, slots=True, order=True)
class PartFile:
    """One Parquet file: some steps of a table of one rank."""

    run: str
    rank: int
    first: int  # the first step that it may hold
    path: str
    table: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """The part of a fleet that is asked."""

    runs: tuple[str, ...] = ()  # empty: all
    ranks: tuple[int, ...] = ()  # empty: all
    steps: tuple[int, int] | None = None  # the first, and the one after the last


@dataclass(frozen=True)
class Fleet:
    """A folder of Parquet files, as `gradscope export` writes it."""

    root: Path
    asked: Asked = field(default_factory=Asked)
    chosen: frozenset[tuple[str, int]] | None = None  # only these runs and ranks

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """The tables of which there is a folder."""
        return tuple(sorted(each.name for each in _folders(self.root)))

    @cached_property
    def runs(self) -> tuple[str, ...]:
        """All runs, whether they are asked for or not."""
        found = {
            unquote(each.name[len(RUN) :])
            for table in _folders(self.root)
            for each in _folders(Path(table.path))
            if each.name.startswith(RUN)
        }
        return tuple(sorted(found))

    def only(self, chosen: Iterable[tuple[str, int]]) -> Fleet:
        """The same fleet with these runs and ranks only."""
        return replace(self, chosen=frozenset(chosen))

    @cached_property
    def last_rank(self) -> int:
        """The largest number of a rank."""
        return max((rank for table in self.tables[:1] for _, rank in self.ranks(table)), default=0)

    def ranks(self, table: str) -> set[tuple[str, int]]:
        """The runs and ranks that have files of a table."""
        return {(each.run, each.rank) for each in self.files(table)}

    def files(self, table: str) -> list[PartFile]:
        """The files of a table that are asked for, ordered by run, rank and step."""
        return sorted(self._files(table))

    def _files(self, table: str) -> Iterator[PartFile]:
        for of_run in _folders(self.root / table):
            run = unquote(of_run.name.removeprefix(RUN))
            if not of_run.name.startswith(RUN) or (self.asked.runs and run not in self.asked.runs):
                continue
            for of_rank in _folders(Path(of_run.path)):
                rank = of_rank.name.removeprefix(RANK)
                if not of_rank.name.startswith(RANK) or not rank.isdigit():
                    continue
                if self.chosen is not None and (run, int(rank)) not in self.chosen:
                    continue
                if self.asked.ranks and int(rank) not in self.asked.ranks:
                    continue
                parts = (each for each in os.scandir(of_rank.path) if _is_part(each.name))
                yield from (
                    PartFile(run, int(rank), _first(each.name), each.path, table) for each in parts
                )


def fleet_at(root: Path, asked: Asked) -> Fleet:
    """The fleet in a folder. Raises an error if there is none, or a run is not in it."""
    if not root.is_dir():
        raise UsageError(
            f"there is no folder {root}; write one: gradscope export TRACE... --to {root}"
        )
    fleet = Fleet(root.resolve(), asked)
    if not fleet.runs:
        raise UnreadableTraceError(
            f"{root} is no fleet: it has no folder TABLE/run=NAME; "
            f"add traces to it: gradscope export TRACE... --to {root}"
        )
    _known_runs(asked.runs, fleet.runs)
    return fleet


def _known_runs(asked: Sequence[str], runs: Sequence[str]) -> None:
    for run in asked:
        if run not in runs:
            near = get_close_matches(run, runs, 1)
            meant = f"; did you mean {near[0]}?" if near else f"; it has: {', '.join(runs[:10])}"
            raise UnknownNameError(f"the fleet has no run {run!r}{meant}")


def _folders(path: Path) -> list[os.DirEntry[str]]:
    try:
        return [each for each in os.scandir(path) if each.is_dir() and each.name[0] not in "._"]
    except FileNotFoundError:
        return []


def _is_part(name: str) -> bool:
    return name.startswith(PART) and name.endswith(".parquet")


def _first(name: str) -> int:
    """The number in `part-40.parquet`; 0 in the name of another program's file."""
    number = name[len(PART) : -len(".parquet")]
    return int(number) if number.isdigit() else 0
