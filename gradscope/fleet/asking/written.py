"""Answers as Parquet files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from gradscope.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa


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
