"""The folder of compiled kernels, which are reused between runs: it is private and writable."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path


@cache
def cache_folder() -> Path | None:
    """The first usable folder; None if there is none, and every run compiles again."""
    return next((folder for folder in _candidates() if _usable(folder)), None)


def _candidates() -> Iterator[Path]:
    """NUMBA_CACHE_DIR, the user's cache, and a temporary folder, in this order."""
    if asked := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(asked)
    if users := os.environ.get("XDG_CACHE_HOME"):
        yield Path(users, "gradscope")
    home = os.environ.get("HOME") or os.environ.get("LOCALAPPDATA")
    if home:
        yield Path(home, ".cache", "gradscope")
    yield Path(tempfile.gettempdir(), f"gradscope-{_user()}")


def _usable(folder: Path) -> bool:
    """Whether only this user can write there, because code that is read from it is executed."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        return _is_ours(folder.stat()) and folder.lstat().st_uid == _user()  # also a link to it
    except OSError:
        return False


def own_bytes(path: str | os.PathLike[str]) -> bytes:
    """The contents of a file that only this user can write. Raises OSError otherwise.

    A link is refused too. The folder alone is no proof: it may have been open to others once.
    """
    file = os.open(path, os.O_RDONLY | NO_LINK)
    with os.fdopen(file, "rb") as opened:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or not _is_ours(found):
            raise PermissionError(f"others can write {path}")
        return opened.read()


def write_own(path: Path, content: bytes) -> None:
    """Write a file that others cannot read, completely or not at all."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    Path(file.name).replace(path)


NO_LINK = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
"""Flags for opening a file but not a link, without waiting for the writer of a pipe."""


def _is_ours(found: os.stat_result) -> bool:
    others_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return os.name == "nt" or (found.st_uid == _user() and not others_write)


def _user() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else 0
