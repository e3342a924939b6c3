"""The standard streams, where they are closed or full."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}


def open_closed() -> None:
    """Replace closed standard streams by the null device."""
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  open to the end
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  open to the end


def is_of_a_stream(error: OSError) -> bool:
    """Whether the error is about a standard stream, not about a file."""
    return error.errno in FULL and error.filename is None


def give_up_output() -> None:
    """Discard unwritten output, which Python would fail to flush at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
