"""The files of a fleet, by table, run and rank, as their paths name them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path

from gradscope.errors import UnknownNameError, UnreadableTraceError, UsageError
from gradscope.fleet.manifest import Manifest, manifests
from gradscope.fleet.places import ALL, MANIFEST, part_name

OPEN_END = 1 << 61
"""Larger than the number of any step."""

RUN, RANK, PART = "run=", "rank=", "part-"


@dataclass(frozen=True, slots=True, order=True)
class PartFile:
    """One Parquet file: some steps of a table of one rank."""

    run: str
    rank: int
    first: int  # the first step that it may hold
    path: str


@dataclass(frozen=True, slots=True)
class Asked:
    """The part of a fleet that is asked."""

    runs: tuple[str, ...] = ()  # empty: all
    ranks: tuple[int, ...] = ()  # empty: all
    steps: tuple[int, int] | None = None  # the first, and the one after the last

    @property
    def words(self) -> str:
        """The ranks and steps, if they are a part: "rank 3 and steps 250 to 259"."""
        ranks = ", ".join(map(str, self.ranks))
        found = [f"rank{'s' * (len(self.ranks) > 1)} {ranks}"] if ranks else []
        if self.steps is not None:
            first, last = self.steps[0], self.steps[1] - 1
            to = "" if first == last else f" to {last}" if last < OPEN_END else " and later"
            found.append(f"step{'s' * (first != last)} {first}{to}")
        return " and ".join(found)


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
        folders = [self.root / MANIFEST, *(self.root / table for table in self.tables)]
        found = {
            each.name.removeprefix(RUN)
            for folder in (folders[:1] if folders[0].is_dir() else folders)
            for each in _folders(folder)
            if each.name.startswith(RUN)
        }
        return tuple(sorted(found))

    def only(self, chosen: Iterable[tuple[str, int]]) -> Fleet:
        """The same fleet with these runs and ranks only."""
        fleet = replace(self, chosen=frozenset(chosen))
        if "_listed" in self.__dict__:
            fleet.__dict__["_listed"] = self._listed
        return fleet

    @cached_property
    def last_rank(self) -> int:
        """The largest number of a rank."""
        return max((rank for _, rank in self.traces), default=0)

    @cached_property
    def traces(self) -> set[tuple[str, int]]:
        """The runs and ranks that are asked for."""
        if self.listed is None:
            return {each for table in self.tables for each in self.ranks(table)}
        return {(each.run, each.rank) for each in self.listed}

    @cached_property
    def listed(self) -> list[Manifest] | None:
        """What exports have completed of the runs and ranks that are asked for.

        None if nothing lists it.
        """
        if self._listed is None:
            return None
        return [each for each in self._listed if self._is_asked(each.run, each.rank)]

    def ranks(self, table: str) -> set[tuple[str, int]]:
        """The runs and ranks that have files of a table."""
        return {(each.run, each.rank) for each in self.files(table)}

    def files(self, table: str) -> list[PartFile]:
        """The files of a table that are asked for, ordered by run, rank and step."""
        if table not in self._by_table:
            listed = self._listed
            found = _found(self.root, table) if listed is None else _files(self.root, listed, table)
            self._by_table[table] = [each for each in found if self._is_asked(each.run, each.rank)]
        return self._by_table[table]

    @cached_property
    def _by_table(self) -> dict[str, list[PartFile]]:
        return {}

    def _is_asked(self, run: str, rank: int) -> bool:
        return (
            (self.chosen is None or (run, rank) in self.chosen)
            and (not self.asked.runs or run in self.asked.runs)
            and (not self.asked.ranks or rank in self.asked.ranks)
        )

    @cached_property
    def _listed(self) -> list[Manifest] | None:
        """What exports have completed; None if nothing lists it."""
        if not (self.root / MANIFEST).is_dir():
            return None
        runs = self.asked.runs or ("*",)
        found = [each for run in runs for each in manifests(self.root, run)]
        return sorted(found, key=lambda each: (each.run, each.rank))


def _files(root: Path, listed: Sequence[Manifest], table: str) -> list[PartFile]:
    """The files of a table in these lists. As text: there may be many thousands."""
    found = []
    for each in listed:
        folder = f"{root}/{table}/{RUN}{each.run}/{RANK}{each.rank}/"
        if table in each.once:
            found.append(PartFile(each.run, each.rank, 0, folder + ALL))
        for part in each.parts:
            if table in part.files:
                name = part_name(part.first)
                found.append(PartFile(each.run, each.rank, part.first or 0, folder + name))
    return found


def _found(root: Path, table: str) -> list[PartFile]:
    """The files of a table that another program wrote, as their paths name them."""
    return sorted(
        PartFile(run, int(rank), _first(part.name), part.path)
        for of_run in _folders(root / table)
        for of_rank in _folders(Path(of_run.path))
        for part in os.scandir(of_rank.path)
        if of_run.name.startswith(RUN) and (run := of_run.name.removeprefix(RUN))
        and (rank := of_rank.name.removeprefix(RANK)).isdigit() and _is_part(part.name)
    )  # fmt: skip


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
