"""Stores machine code between runs, so that each function is compiled only once.

# Note [What is kept]
The name of a file is a digest of everything that determines its code: the functions, their
constants, the compiler and the processor. Addresses are not part of it: they are symbols, which get
their values when the code is loaded. Only files that no other user can write are read
(cache_folder.py); others, and incomplete ones, are replaced.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gradscope.machine_code.cache_folder import cache_folder, own_bytes, write_own
from gradscope.machine_code.loaded import Loaded, NotLoadable

SUFFIX, DIGEST = ".machine-code", 32
MOST_KEPT = 64
"""Largest number of files; the oldest are removed."""

CPU_INFO = Path("/proc/cpuinfo")
TELLING = ("vendor_id", "cpu family", "model", "stepping", "flags", "CPU ", "Features")
"""Beginnings of the lines that describe what a processor supports."""


def engine(about: str, text: Callable[[], str], symbols: Mapping[str, int], *, opt: int) -> Any:
    """The owner of a module's code in memory. `text` returns its LLVM IR if no file exists."""
    key = f"{about}\n{opt} {_maker()} {_processor()}"
    folder = cache_folder()
    path = None if folder is None else folder / f"{sha256(key.encode()).hexdigest()[:40]}{SUFFIX}"
    code = None if path is None else _read(path)
    if code is None:
        from gradscope.machine_code.llvm import compiled  # noqa: PLC0415 -- Note [Without LLVM]

        code = compiled(text(), opt)
        if path is not None:
            _write(path, code)
    try:
        return Loaded(code, symbols)
    except NotLoadable:
        from gradscope.machine_code.llvm import loaded  # noqa: PLC0415 -- likewise

        return loaded(code, symbols)


@cache
def _maker() -> str:
    """The versions that determine code: of Python, LLVM and the files next to this one."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    own = sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    return f"{sys.version} {version('llvmlite')} {own}"


@cache
def _processor() -> str:
    """The features of the processor, for which code is compiled."""
    lines = []
    with suppress(OSError), CPU_INFO.open() as file:
        for line in file:
            if not line.strip():
                break  # the others are the same
            if line.startswith(TELLING):
                lines.append(line)
    if lines:
        return "".join(lines)
    from gradscope.machine_code.llvm import processor  # noqa: PLC0415 -- likewise

    return f"{platform.machine()} {processor()}"


def _read(path: Path) -> bytes | None:
    try:
        found = own_bytes(path)
    except OSError:
        return None
    code = found[DIGEST:]
    return code if sha256(code).digest() == found[:DIGEST] else None


def _write(path: Path, code: bytes) -> None:
    """Write a file completely or not at all, even if others do the same; remove old ones."""
    with suppress(OSError):
        write_own(path, sha256(code).digest() + code)
        kept = sorted(path.parent.glob(f"*{SUFFIX}"), key=lambda each: each.stat().st_mtime)
        for old in kept[:-MOST_KEPT]:
            old.unlink()
