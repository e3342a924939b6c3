"""Freed memory is used again, and not given back to the system at once.

A training step frees its arrays and asks for as many again. Where each of them comes from the
system, every page of it is cleared and mapped anew: a fifth of a small GPT's step. glibc's malloc
is told to keep up to 32 MB, which is also how large an array may be that it keeps.
"""

from __future__ import annotations

import ctypes
import os
from typing import Final

KEPT: Final = 32 << 20
"""Bytes; glibc takes no larger number for the size of an array."""
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # from malloc.h
BY_USERS: Final = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")


def keep_freed_memory() -> None:
    """Tell malloc so, where it is glibc's and the user has not told it anything else."""
    told = "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "")
    if told or any(name in os.environ for name in BY_USERS):
        return
    try:
        tell = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another libc; Windows
        return
    tell(MMAP_THRESHOLD, KEPT)
    tell(TRIM_THRESHOLD, KEPT)
