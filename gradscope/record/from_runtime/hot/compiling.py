"""Decides when to record with C functions: once compiling them pays off."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from gradscope.runtime.core.kernels.compile_notices import own_work

if TYPE_CHECKING:
    from gradscope.record.from_runtime.c_functions.telling import Functions

LONG = 1 << 14
"""Number of records in one process from which compiling pays off."""


class Compiling:
    """Counts the records of a process, and holds its C functions after compilation."""

    functions: Functions | None = None
    _records = 0
    _tried = False

    @classmethod
    def counted(cls, records: int) -> Functions | None:
        """Count new records. Returns the C functions if compiling has paid off."""
        cls._records += records
        if cls._records >= LONG and not cls._tried:
            cls._tried = True
            if not _possible():
                return None
            # Whatever is wrong with llvmlite here, the Python versions work.
            with suppress(Exception), own_work("compiles its recorder"):
                from gradscope.record.from_runtime.c_functions.telling import Functions

                cls.functions = Functions()
        return cls.functions


def _possible() -> bool:
    """Whether words have 64 bits and only one thread runs at a time."""
    with_lock = getattr(sys, "_is_gil_enabled", lambda: True)
    return sys.maxsize > 1 << 32 and with_lock()
