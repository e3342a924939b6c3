"""What exports have listed of the ranks of a fleet, for questions that need not read the files."""

from __future__ import annotations

from gradscope.fleet.asking.engine import to_bytes
from gradscope.fleet.asking.folder import Fleet


def listed_first_bad(fleet: Fleet, kind: str) -> bytes | None:
    """The table `run`, `rank`, `step` of the first NaN or Inf of each rank that has one.

    None if an export has not listed it, or if a file is not there as it was written.
    """
    import pyarrow as pa

    if fleet.listed is None:
        return None
    rows: list[tuple[str, int, int]] = []
    try:
        for each in fleet.listed:
            step = each.first_bad(fleet.root, kind)
            if step is not None:
                rows.append((each.run, each.rank, step))
    except LookupError:
        return None
    kinds = {"run": pa.string(), "rank": pa.int64(), "step": pa.int64()}
    columns = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(kinds.values())]
    return to_bytes(pa.Table.from_arrays(columns, names=[*kinds]))
