"""DuckDB in this process: the tables of a part as views, and nothing else of the machine."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gradscope.errors import DamagedPartError, UsageError
from gradscope.fleet.tables import PATH, TABLES

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

MEMORY = "1GB"
"""The most that DuckDB takes before it writes to a temporary folder."""
SPILL = "50GB"
"""The most that it writes there."""
NAMED = re.compile(r"\$(\w+)")


@dataclass(frozen=True, slots=True)
class PartWork:
    """What one worker has to do: SQL over some files."""

    root: str
    files: Mapping[str, Sequence[str]]  # by table
    sql: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[int, int] | None = None  # the first, and the one after the last
    found: bytes | None = None  # the table `found`, as Arrow
    threads: int = 0  # 0: as many as there are cores


def run_part(work: PartWork) -> bytes:
    """The rows that the SQL gives over the files of a part, as Arrow. Runs on any machine."""
    with tables_of(work) as connection:
        return to_bytes(_rows(connection, work.sql, work.parameters))


FILES = """
    SELECT * FROM read_parquet(
        $files, hive_partitioning = true, hive_types = {'run': 'VARCHAR', 'rank': 'BIGINT'}
    )
"""


@contextmanager
def tables_of(work: PartWork) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection in which the tables of a part are views."""
    with _connection(work.root, work.threads) as connection:
        try:
            for table, files in work.files.items():
                _view(connection, table, files, work.steps)
            if work.found is not None:
                connection.register("found", from_bytes(work.found))
            yield connection
        finally:
            for table in work.files:
                connection.execute(f'DROP VIEW IF EXISTS "{table}"')
            connection.unregister("found")


def run_sum(
    parts: Sequence[bytes], sql: str, parameters: Mapping[str, Any], found: bytes | None = None
) -> pa.Table:
    """The rows that the SQL gives over the rows of all parts, the table `parts`."""
    import pyarrow as pa

    tables = [from_bytes(part) for part in parts]
    with _connection("", 0) as connection:
        try:
            connection.register("parts", pa.concat_tables(tables, promote_options="permissive"))
            if found is not None:
                connection.register("found", from_bytes(found))
            return _rows(connection, sql, parameters)
        finally:
            connection.unregister("parts")
            connection.unregister("found")


def to_bytes(table: pa.Table) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def from_bytes(content: bytes) -> pa.Table:
    import pyarrow as pa

    return pa.ipc.open_stream(content).read_all()


class _Kept(threading.local):
    """The connections of a thread: opening one takes longer than many a question."""

    def __init__(self) -> None:
        self.by_root: dict[tuple[str, int], duckdb.DuckDBPyConnection] = {}
        self.spill = _SpillFolder()


class _SpillFolder:
    """A temporary folder that is removed with this object, and when Python ends."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="gradscope-ask-")
        weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)


_kept = _Kept()


@contextmanager
def _connection(root: str, threads: int) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that reads files below `root` only, and whose settings cannot be changed."""
    import duckdb

    key = root, threads
    if key not in _kept.by_root:
        _kept.by_root[key] = connection = duckdb.connect(
            config={
                "memory_limit": MEMORY,
                "threads": threads or os.cpu_count() or 1,
                "temp_directory": _kept.spill.name,
                "max_temp_directory_size": SPILL,
                "preserve_insertion_order": False,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            }
        )
        if root:
            connection.execute("SET allowed_directories = ?", [[f"{root}/"]])
        connection.execute("SET enable_progress_bar = false")  # it is drawn into the output
        connection.execute("SET python_enable_replacements = false")  # variables are no tables
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
    yield _kept.by_root[key]


def _view(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    files: Sequence[str],
    steps: tuple[int, int] | None,
) -> None:
    """A view of the files; of a table without files an empty one."""
    columns = (*PATH, *TABLES[table].columns)
    if not files:
        nothing = ", ".join(f'NULL::{each.type} AS "{each.name}"' for each in columns)
        connection.execute(f'CREATE VIEW "{table}" AS SELECT {nothing} WHERE false')
        return
    with errors_in_words():
        rows = connection.sql(FILES, params={"files": list(files)})
        if steps is not None and TABLES[table].by_step:
            first, end = (int(number) for number in steps)
            rows = rows.filter(f"step >= {first} AND step < {end}")
        rows.create_view(table)


def _rows(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Mapping[str, Any]
) -> pa.Table:
    only_select(connection, sql)
    bound = {name: parameters[name] for name in NAMED.findall(sql) if name in parameters}
    with errors_in_words():
        return connection.sql(sql, params=bound or None).to_arrow_table()


@contextmanager
def errors_in_words() -> Iterator[None]:
    """Raise errors of DuckDB as those of gradscope: what failed, and what to do."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise UsageError(
            f"the SQL needs more than {MEMORY} of memory and {SPILL} of disk; ask about fewer "
            f"runs, ranks or steps ({_short(error)})"
        ) from None
    except duckdb.Error as error:
        if "://" not in str(error) and any(word in str(error) for word in DAMAGE):
            raise DamagedPartError(f"a file of the fleet is damaged: {_short(error)}") from None
        raise UsageError(f"the SQL failed: {_short(error)}") from None


DAMAGE = (
    ".parquet",
    "Parquet",
    "parquet",
    "ZSTD",
    "zstd",
    "TProtocolException",
    "thrift",
    "Snappy",
)
"""What messages of DuckDB about damaged files contain."""


def only_select(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Raise UsageError unless the SQL is one SELECT."""
    import duckdb

    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error as error:
        raise UsageError(f"the SQL failed: {_short(error)}") from None
    kinds = [each.type.name for each in statements]
    if kinds != ["SELECT"]:
        what = "is empty" if not kinds else f"is {' and '.join(kinds)}"
        raise UsageError(f"a fleet is only read: give one SELECT; this {what}")


def _short(error: Exception) -> str:
    """The message of DuckDB without the picture of the place."""
    return " ".join(str(error).split("\n\nLINE")[0].split())
