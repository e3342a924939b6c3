"""A trace file opened for one writer, which other users of the machine cannot read."""

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
    """An empty file at `path`; at `trace.2.json` beside it, if somebody still writes `trace.json`.

    The lock is the kernel's, so it ends with its process, however that ends.
    """
    for number in count(2):
        chosen = path if number == 2 else numbered(path, number - 1)
        file = os.open(chosen, os.O_WRONLY | os.O_CREAT, 0o600)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return file, chosen  # a device is for all who write to it
        if _is_ours(file):
            with suppress(OSError, AttributeError):  # somebody else's; or this is Windows
                os.fchmod(file, 0o600)
            os.ftruncate(file, 0)
            return file, chosen
        os.close(file)
    raise AssertionError("there are always more numbers")


def private(path: str, flags: int) -> int:
    """An opener for `open` that makes files only their owner may read."""
    return os.open(path, flags, 0o600)


def numbered(path: Path, number: int) -> Path:
    """`trace.2.json` for `trace.json`."""
    ending = ENDINGS.search(path.name)
    assert ending is not None  # it may be empty
    return path.with_name(f"{path.name.removesuffix(ending[0])}.{number}{ending[0]}")


def _is_ours(file: int) -> bool:
    """Lock it for this writer. A file system without locks is taken as it is."""
    if sys.platform == "win32":  # it has no such locks
        return True
    import fcntl  # noqa: PLC0415  not there on Windows

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
