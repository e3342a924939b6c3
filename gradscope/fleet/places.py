"""Where everything of a fleet lies in its folder, and which names of runs are possible.

    fleet/op/run=lr3e-4/rank=0/part-00000000.parquet     steps 0, 1, … of table op
    fleet/op/run=lr3e-4/rank=0/part-outside.parquet      rows outside of steps
    fleet/line/run=lr3e-4/rank=0/part-all.parquet        tables with one file per rank
    fleet/_manifest/run=lr3e-4/rank=0.json               lists the files above: see manifest.py
    fleet/_writing/run=lr3e-4/rank=0/                    files that are not complete

Engines leave out folders whose names begin with `_`.
"""

from __future__ import annotations

import re
from pathlib import Path

from gradscope.errors import UsageError
from gradscope.trace.text import quoted

MANIFEST, WRITING = "_manifest", "_writing"
OUTSIDE, ALL = "part-outside.parquet", "part-all.parquet"

LONGEST_NAME = 100
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._+-]{{0,{LONGEST_NAME - 1}}}")


def checked_run(name: str) -> str:
    """The name of a run, if it can be one: it is part of paths, and engines read it from there."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"--run {quoted(name)} cannot be the name of a run: use 1 to {LONGEST_NAME} letters, "
            "digits, '.', '_', '+' and '-', the first one a letter or a digit"
        )
    if name.upper() == "NULL" or name.endswith("."):  # engines read it as NULL; Windows drops it
        raise UsageError(
            f"--run {quoted(name)} cannot be the name of a run: it is 'null', or ends with '.'"
        )
    return name


def part_name(first: int | None) -> str:
    """The name of the file whose first step is this one; None: of rows outside of steps."""
    return OUTSIDE if first is None else f"part-{first:08d}.parquet"


def rank_folder(fleet: Path, table: str, run: str, rank: int) -> Path:
    """The folder of the files of one table, run and rank."""
    return fleet / table / f"run={run}" / f"rank={rank}"


def manifest_path(fleet: Path, run: str, rank: int) -> Path:
    return fleet / MANIFEST / f"run={run}" / f"rank={rank}.json"


def lock_path(fleet: Path, run: str, rank: int) -> Path:
    return fleet / MANIFEST / f"run={run}" / f"rank={rank}.lock"


def writing_folder(fleet: Path, run: str, rank: int) -> Path:
    return fleet / WRITING / f"run={run}" / f"rank={rank}"
