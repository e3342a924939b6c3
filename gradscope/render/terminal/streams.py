"""The standard streams, where they are closed or full."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}


def open_closed() -> None:
    """Let a standard stream that is closed swallow what it is given."""
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  open to the end
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  open to the end


def is_of_a_stream(error: OSError) -> bool:
    """Whether writing to a stream failed, and not to a file of ours."""
    return error.errno in FULL and error.filename is None


def give_up_output() -> None:
    """Throw away what is not written yet: Python would complain when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
