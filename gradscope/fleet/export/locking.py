"""One export of a rank at a time: a second one waits for the first."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock while the block runs.

    The kernel releases it when the process ends, however that happens. On Windows, and on file
    systems without locks, there is none.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        if sys.platform != "win32":
            import fcntl  # noqa: PLC0415  not there on Windows

            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX)
        yield
