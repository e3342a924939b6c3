"""The file that a recorded program's trace goes to: over an older trace, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

from gradscope.errors import RecordingError, UnreadableTraceError, UsageError
from gradscope.trace.load_save import is_trace
from gradscope.trace.text import quoted_path
from gradscope.trace.writer import FileWriter


def trace_file(output: Path, source: str | None, max_bytes: int | None = None) -> FileWriter:
    """The file `output`, of the program whose text is at `source`."""
    path = Path(os.path.abspath(output))  # noqa: PTH100
    shown = quoted_path(output)
    try:
        if source is not None and path.exists() and path.samefile(source):
            raise UsageError(f"{shown} is the script itself; name the trace otherwise, with -o")
        if path.is_file() and not is_trace(path):
            raise UsageError(
                f"{shown} is there already and is no trace; name the trace otherwise, with -o"
            )
    except (OSError, UnreadableTraceError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RecordingError(f"cannot write {shown}: {reason}") from None
    return FileWriter(path, max_bytes)


def said_of(writer: FileWriter, asked: Path) -> str:
    """What is to be said of where a trace goes; nothing, if it goes where it was asked for."""
    if writer.path.name == asked.name:
        return ""
    return (
        f"{quoted_path(asked)} is being written by another recording; "
        f"this trace goes to {quoted_path(asked.with_name(writer.path.name))}"
    )
