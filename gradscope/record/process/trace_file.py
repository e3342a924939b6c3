"""The trace file of a recorded program. It may replace an older trace, but no other file."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from gradscope.errors import (
    MissingProgramError,
    RecordingError,
    UnreadableTraceError,
    UsageError,
)
from gradscope.trace.file.latest.ring import RingWriter
from gradscope.trace.load_save import is_trace, load
from gradscope.trace.schema import Meta
from gradscope.trace.text import quoted_path, visible
from gradscope.trace.writer import FileWriter

MOST_BYTES = 256_000_000
"""The largest size of a trace, unless another limit was requested."""
KEPT = 20
"""Number of the latest steps that are kept when a trace is nearly that large."""

SMALL = 1 << 23
"""Largest size in bytes of an old trace that is read before it is replaced, to describe it."""


def trace_file(
    output: Path, source: str | None, max_bytes: int | None = None, keep: int | None = None
) -> tuple[FileWriter, str]:
    """Open the trace file `output` of the program at `source`; with a message to print, or "".

    `keep`: the number of latest steps to keep, from the start; None: as soon as it is nearly full.
    """
    path = Path(os.path.abspath(output))  # noqa: PTH100
    shown = quoted_path(output)
    try:
        if source and path.exists() and os.path.exists(source) and path.samefile(source):  # noqa: PTH110
            raise UsageError(f"{shown} is the script itself; choose another name with -o")
        if path.is_file() and not is_trace(path):
            raise UsageError(f"{shown} exists and is not a trace; choose another name with -o")
    except (OSError, UnreadableTraceError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RecordingError(f"cannot write {shown}: {reason}") from None
    held = _held(path)
    writer = writer_for(path, max_bytes, keep)
    if held and writer.path == path:
        return writer, f"replacing {shown}, which contains {held}"
    return writer, said_of(writer, output)


def writer_for(path: Path, max_bytes: int | None, keep: int | None) -> FileWriter:
    """The writer of a trace of limited size, or of one that keeps the latest steps."""
    if keep == 0 or (keep is None and max_bytes is None):
        return FileWriter(path, max_bytes)
    return RingWriter(path, max_bytes, keep=keep or KEPT, from_start=keep is not None)


def said_of(writer: FileWriter, asked: Path) -> str:
    """The message to print if a trace goes to another file than the requested one, or ""."""
    if writer.path.name == asked.name:
        return ""
    return (
        f"{_holder(asked)} is writing {quoted_path(asked)}; "
        f"writing this trace to {quoted_path(asked.with_name(writer.path.name))}"
    )


def _held(path: Path) -> str:
    """The recording in the file, such as "a finished recording of train.py", or ""."""
    try:
        if path.stat().st_size > SMALL:
            return "a recording"
        trace = load(path, [Meta])
    except (OSError, UnreadableTraceError, MissingProgramError):
        return ""
    script = visible(trace.meta.get("script", ""))
    return "" if trace.truncated else f"a finished recording of {script or 'a program'}"


def _holder(path: Path) -> str:
    """The process that has locked a file, if the system tells: "process 7 (python train.py)"."""
    try:
        found = path.stat()
        device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        holder = next(
            int(line[4]) for line in locks if line[1:2] == ["FLOCK"] and line[5] == device
        )
    except (OSError, ValueError, IndexError, AttributeError, StopIteration):
        return "another recording"
    if holder == os.getpid():
        return "another recording of this process"
    try:
        words = Path(f"/proc/{holder}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return f"process {holder}"
    command = visible(" ".join(words.rstrip("\0").split("\0")), 100)
    return f"process {holder}" + f" ({command})" * bool(command)


def complain(text: str) -> None:
    """Print that a trace is incomplete. Nothing is raised, because the program continues."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"gradscope: {text}; the program continues\n")
