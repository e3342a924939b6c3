"""The list of files of a rank: what an export has completed, and of which trace.

An export writes the list last. A file that it does not name is not part of the fleet: an export
was killed before it was done, and the next one removes the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from gradscope.errors import UsageError
from gradscope.fleet.places import (
    ALL,
    MANIFEST,
    manifest_path,
    part_name,
    rank_folder,
    writing_folder,
)
from gradscope.trace.text import quoted_path

FORMAT = 1
"""Version of the list and of the tables. A fleet of another one is not added to."""

ENDING = 8
"""Bytes at the end of a Parquet file: the length of its footer, and `PAR1`."""


@dataclass(frozen=True, slots=True)
class FileFacts:
    """One Parquet file."""

    rows: int
    bytes: int
    digest: str  # of its cells, if the trace was not closed: equal for equal rows
    first_bad: Mapping[str, int | None] | None = None  # see first_bad.py; None: not known

    def fits(self, path: Path) -> bool:
        """Whether the file is there, with this size, and ends as Parquet files do."""
        try:
            with path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(size - ENDING, 0))
                ending = file.read()
        except OSError:
            return False
        footer = int.from_bytes(ending[:4], "little")  # its length
        return size == self.bytes and ending[4:] == b"PAR1" and footer < size


@dataclass(frozen=True, slots=True)
class FleetPart:
    """The files of a block of steps, one per table that has rows in it."""

    first: int | None  # numbers of the first step and the last one; None: outside of steps
    last: int | None
    steps: int  # number of recorded steps
    files: Mapping[str, FileFacts]  # by table


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a fleet has of one rank of a run."""

    run: str
    rank: int
    recording: str  # digest of the beginning of the trace, which never changes
    trace: str  # digest of the whole file when it was exported
    options: Mapping[str, Any] = field(default_factory=dict)  # that change what is written
    parts: tuple[FleetPart, ...] = ()
    once: Mapping[str, FileFacts] = field(default_factory=dict)  # tables with one file per rank
    format: int = FORMAT

    def files(self, fleet: Path) -> Iterator[tuple[str, Path, FileFacts]]:
        """Every file, with its table."""
        for part in self.parts:
            for table, facts in part.files.items():
                folder = rank_folder(fleet, table, self.run, self.rank)
                yield table, folder / part_name(part.first), facts
        for table, facts in self.once.items():
            yield table, rank_folder(fleet, table, self.run, self.rank) / ALL, facts

    def first_bad(self, fleet: Path, kind: str, table: str) -> int | None:
        """The first step with NaN or Inf, or with another kind of them; None if there is none.

        `table`: value or grad. Raises LookupError if it is not listed, or if a file is not there
        as it was written.
        """
        found: list[int] = []
        for part in self.parts:
            if facts := part.files.get(table):
                folder = rank_folder(fleet, table, self.run, self.rank)
                if facts.first_bad is None or not facts.fits(folder / part_name(part.first)):
                    raise LookupError(table)
                step = facts.first_bad[kind]
                found += [] if step is None else [step]
        return min(found, default=None)

    @property
    def rows(self) -> int:
        every = [*self.once.values(), *(f for part in self.parts for f in part.files.values())]
        return sum(facts.rows for facts in every)


def read(path: Path) -> Manifest | None:
    """The list in a file; None if there is none."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        fields = orjson.loads(content)
        if fields["format"] != FORMAT:
            raise UsageError(
                f"{quoted_path(path)} was written by another version of gradscope: export into a "
                "new folder"
            )
        return Manifest(**{
            **fields,
            "parts": tuple(
                FleetPart(each["first"], each["last"], each["steps"], _files(each["files"]))
                for each in fields["parts"]
            ),
            "once": _files(fields["once"]),
        })  # fmt: skip
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        raise UsageError(
            f"{quoted_path(path)} is damaged: remove it, and export the trace again"
        ) from None


def _files(fields: Mapping[str, Any]) -> dict[str, FileFacts]:
    return {table: FileFacts(**facts) for table, facts in fields.items()}


def write(fleet: Path, manifest: Manifest) -> None:
    """Replace the list of a rank, at once."""
    path = manifest_path(fleet, manifest.run, manifest.rank)
    aside = writing_folder(fleet, manifest.run, manifest.rank) / "manifest.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    aside.parent.mkdir(parents=True, exist_ok=True)
    with aside.open("wb") as file:
        file.write(orjson.dumps(asdict(manifest), option=orjson.OPT_INDENT_2))
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def manifests(fleet: Path, run: str = "*") -> Iterator[Manifest]:
    """The lists of all ranks of a run, or of all runs, in the order of their names."""
    paths = (fleet / MANIFEST).glob(f"run={run}/rank=*.json")
    for path in sorted(paths, key=lambda path: (path.parent.name, len(path.name), path.name)):
        found = read(path)
        if found is not None:
            yield found


def with_part(manifest: Manifest, part: FleetPart) -> Manifest:
    """The list with a part that is new, or replaces the one with the same first step."""
    others = [each for each in manifest.parts if each.first != part.first]
    parts = sorted([*others, part], key=lambda each: (each.first is None, each.first or 0))
    return replace(manifest, parts=tuple(parts))
