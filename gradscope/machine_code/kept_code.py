"""Machine code that is kept between runs: what was compiled once, with the same words, is read.

# Note [What is kept]
A file's name says all that its code follows from: the functions, the numbers they name, who
compiled them and for which processor. Addresses are not among it. They are symbols, which are given
their values where the code is put into memory. Only files that are ours and nobody else's are read
(cache_folder.py); another, and one that is not whole, is made again.
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
"""So many files stay; the oldest go."""

CPU_INFO = Path("/proc/cpuinfo")
TELLING = ("vendor_id", "cpu family", "model", "stepping", "flags", "CPU ", "Features")
"""How the lines begin that say what a processor can do."""


def engine(about: str, text: Callable[[], str], symbols: Mapping[str, int], *, opt: int) -> Any:
    """Who has the code of a module in memory. `text`, of LLVM's, is asked for if none is kept."""
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
    """Who compiles: Python, whose objects code looks into, LLVM, and the files beside this."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    own = sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    return f"{sys.version} {version('llvmlite')} {own}"


@cache
def _processor() -> str:
    """What the processor can do: code is compiled for it."""
    lines = []
    with suppress(OSError), CPU_INFO.open() as file:
        for line in file:
            if not line.strip():
                break  # the others are alike
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
    """All of it or nothing, whoever else does the same; and not too many."""
    with suppress(OSError):
        write_own(path, sha256(code).digest() + code)
        kept = sorted(path.parent.glob(f"*{SUFFIX}"), key=lambda each: each.stat().st_mtime)
        for old in kept[:-MOST_KEPT]:
            old.unlink()
