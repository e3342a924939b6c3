"""Opens a trace file for a single writer, not readable by other users of the machine."""

from __future__ import annotations

import os
import re
import stat
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path

ENDINGS = re.compile(r"(\.json)?(\.gz|\.zst)?$")


def opened(path: Path) -> tuple[int, Path]:
    """An empty file at `path`; `trace.2.json` if another process is still writing `trace.json`.

    The lock is held by the kernel, so it is released when its process ends, however that happens.
    """
    for number in count(2):
        chosen = path if number == 2 else numbered(path, number - 1)
        file = os.open(chosen, os.O_WRONLY | os.O_CREAT, 0o600)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return file, chosen  # a device may have several writers
        if _is_ours(file):
            with suppress(OSError, AttributeError):  # the file has another owner; or Windows
                os.fchmod(file, 0o600)
            os.ftruncate(file, 0)
            return file, chosen
        os.close(file)
    raise AssertionError("unreachable: there is always a next number")


def private(path: str, flags: int) -> int:
    """An opener for `open` that creates files readable only by their owner."""
    return os.open(path, flags, 0o600)


def numbered(path: Path, number: int) -> Path:
    """`trace.2.json` for `trace.json`."""
    ending = ENDINGS.search(path.name)
    assert ending is not None  # but it may be empty
    return path.with_name(f"{path.name.removesuffix(ending[0])}.{number}{ending[0]}")


def is_being_written(path: Path) -> bool:
    """Whether a process has locked a file, which it then writes."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return not _is_ours(file)
    finally:
        os.close(file)


def _is_ours(file: int) -> bool:
    """Lock it for this writer. File systems without locks are accepted."""
    if sys.platform == "win32":  # Windows has no such locks
        return True
    import fcntl  # noqa: PLC0415  not there on Windows

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
