"""Which files of a part are damaged, found by reading each alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gradscope.errors import DamagedPartError
from gradscope.fleet.asking.clusters import Cluster
from gradscope.fleet.asking.engine import PartWork, run_part

AT_ONCE = 16
"""Number of files that are read together, until one of them is damaged."""


def damaged_among(
    root: str, table: str, files: Sequence[str], columns: Iterable[str], cluster: Cluster
) -> list[str]:
    """The files that cannot be read."""
    sums = ", ".join(f'min("{each}")' for each in columns)
    groups = [files[at : at + AT_ONCE] for at in range(0, len(files), AT_ONCE)]
    works = [PartWork(root, {table: group}, f'SELECT {sums} FROM "{table}"') for group in groups]
    bad = [
        work.files[table]
        for work, well in zip(works, cluster.map(reads, works), strict=True)
        if not well
    ]
    ones = [PartWork(root, {table: [each]}, works[0].sql) for group in bad for each in group]
    return [
        work.files[table][0]
        for work, well in zip(ones, cluster.map(reads, ones), strict=True)
        if not well
    ]


def reads(work: PartWork) -> bool:
    """Whether the files can be read."""
    try:
        run_part(work)
    except DamagedPartError:
        return False
    return True
