"""The tables of a fleet: what each column of the Parquet files means.

Files lie in `<table>/run=<run>/rank=<rank>/`. So `run` and `rank` are columns of every table, read
from the path; they are not in the files. A cell is NULL if the trace does not have that fact.

`step` is the number of the step as the run counts them; NULL outside of steps. `k` is the position
within the step in the order of the program, from 0: on ranks that did the same, rows with the same
`step` and `k` of a table are the same operation, node, collective or parameter. `line_hash` is a
hash of file, function and text of a line: it is equal on all ranks, and in other runs as long as
the line stays the same. Times that end in `_at` are nanoseconds since 1970, on the clock of the
machine; those that end in `_ns` are durations in nanoseconds, without gradscope's own work.
"""

from __future__ import annotations

from gradscope.fleet.tables.by_rank import BY_RANK
from gradscope.fleet.tables.by_step import BY_STEP
from gradscope.fleet.tables.table import INTEGER, REAL, TEXT, YES, FleetColumn, FleetTable

__all__ = ["INTEGER", "PATH", "REAL", "TABLES", "TEXT", "YES", "FleetColumn", "FleetTable"]

PATH = (
    FleetColumn("run", TEXT, "name that `--run` gave"),
    FleetColumn("rank", INTEGER, "rank of the process; 0 if there is only one"),
)
"""Columns of every table that are in the path of its files, not in the files."""

TABLES = {table.name: table for table in (*BY_STEP, *BY_RANK)}
"""Every table of a fleet, by name."""
