"""Where compiled kernels are kept between runs: a folder that is ours and can be written to."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path


@cache
def cache_folder() -> Path | None:
    """The first folder that will do; None if there is none, and every run compiles anew."""
    return next((folder for folder in _candidates() if _usable(folder)), None)


def _candidates() -> Iterator[Path]:
    """NUMBA_CACHE_DIR, the user's cache, and one among the temporary files, in this order."""
    if asked := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(asked)
    if users := os.environ.get("XDG_CACHE_HOME"):
        yield Path(users, "gradscope")
    home = os.environ.get("HOME") or os.environ.get("LOCALAPPDATA")
    if home:
        yield Path(home, ".cache", "gradscope")
    yield Path(tempfile.gettempdir(), f"gradscope-{_user()}")


def _usable(folder: Path) -> bool:
    """Whether we can write there, and nobody else can: what is read from it is run."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        return _is_ours(folder.stat()) and folder.lstat().st_uid == _user()  # a link to it, too
    except OSError:
        return False


def own_bytes(path: str | os.PathLike[str]) -> bytes:
    """What is in a file that nobody else can write. Raises OSError for any other, and for a link.

    The folder alone does not say whose a file is: it may have been open to others once.
    """
    file = os.open(path, os.O_RDONLY | NO_LINK)
    with os.fdopen(file, "rb") as opened:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or not _is_ours(found):
            raise PermissionError(f"others can write {path}")
        return opened.read()


def write_own(path: Path, content: bytes) -> None:
    """Put this into a file that nobody else can read: all of it or nothing."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    Path(file.name).replace(path)


NO_LINK = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
"""How to open a file and never a link, without waiting for the writer of a pipe."""


def _is_ours(found: os.stat_result) -> bool:
    others_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return os.name == "nt" or (found.st_uid == _user() and not others_write)


def _user() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else 0
