"""A limit on memory under which a program runs alone, and not beside a recording."""

from __future__ import annotations

import mmap
import subprocess
import sys
from typing import Final

RESERVE: Final = 1 << 28
"""Bytes of addresses that a recording and what it imports may take after its start."""


def is_limited() -> bool:
    """Whether this process may not have all the memory that the machine has."""
    try:
        import resource
    except ImportError:
        return False
    limits = (resource.RLIMIT_AS, resource.RLIMIT_DATA)
    return any(resource.getrlimit(each)[0] != resource.RLIM_INFINITY for each in limits)


def leaves_too_little() -> bool:
    """Whether a limit leaves no room for a recording that has begun."""
    if not is_limited():
        return False
    try:
        mmap.mmap(-1, RESERVE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except (OSError, MemoryError):
        return True
    return False


def alone(script: str, arguments: tuple[str, ...], *, module: bool) -> list[str]:
    """The command by which this Python runs a program without gradscope."""
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return [sys.executable, *flags, *(["-m"] if module else []), script, *arguments]
