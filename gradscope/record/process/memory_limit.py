"""Memory limits under which a program can run, but not be recorded."""

from __future__ import annotations

import mmap
import subprocess
import sys
from typing import Final

RESERVE: Final = 1 << 28
"""Bytes of address space that a recording and its imports may need after its start."""


def is_limited() -> bool:
    """Whether the memory of this process is limited."""
    try:
        import resource
    except ImportError:
        return False
    limits = (resource.RLIMIT_AS, resource.RLIMIT_DATA)
    return any(resource.getrlimit(each)[0] != resource.RLIM_INFINITY for each in limits)


def leaves_too_little() -> bool:
    """Whether a limit leaves too little memory for a recording that has begun."""
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
