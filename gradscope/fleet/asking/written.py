"""Answers as Parquet files."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gradscope.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa


MAGIC = b"PAR1"
"""The first bytes of a Parquet file."""


def may_replace_parquet(path: Path) -> None:
    """Raise UsageError if the file exists, and is no Parquet file."""
    with suppress(OSError), path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise UsageError(
                f"{path} exists and was not written by this command; choose another name with -o"
            )


def write_batches(path: Path, reader: pa.RecordBatchReader) -> int:
    """Write rows as they are read; the number of rows. The file is there when all are written."""
    import pyarrow.parquet as pq

    aside = path.with_name(f"{path.name}.{os.getpid()}.part")
    rows = 0
    try:
        with pq.ParquetWriter(aside, reader.schema, compression="zstd") as writer:
            for batch in reader:
                writer.write_batch(batch)
                rows += len(batch)
        aside.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    finally:
        aside.unlink(missing_ok=True)
    return rows
