"""Reuse of freed memory, without returning it to the system.

A training step frees its arrays and allocates as many again. If they all come from the system,
every page is cleared and mapped anew: a fifth of the time of a small GPT's step. So glibc's malloc
is set to keep up to 32 MB, which is also the largest size of an array that it keeps.
"""

from __future__ import annotations

import ctypes
import os
from typing import Final

KEPT: Final = 32 << 20
"""Bytes. glibc accepts no larger value."""
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # from malloc.h
BY_USERS: Final = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")


def keep_freed_memory() -> None:
    """Set malloc's options, if it is glibc's and the user has not set any."""
    told = "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "")
    if told or any(name in os.environ for name in BY_USERS):
        return
    try:
        tell = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another libc; Windows
        return
    tell(MMAP_THRESHOLD, KEPT)
    tell(TRIM_THRESHOLD, KEPT)
