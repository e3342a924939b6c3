"""The folder whose traces are served: nothing outside of it is read, also not through a link."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

from gradscope.errors import GradscopeError, UsageError
from gradscope.trace.load_save import is_trace, load
from gradscope.trace.shortcomings import GROWING
from gradscope.trace.trace import Trace

KEPT = 4
"""Number of traces that stay in memory."""

ENDINGS = (".json", ".json.gz", ".json.zst")


class ServedFolder:
    """The traces in a folder and its subfolders."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise UsageError(f"there is no folder {root}")
        self.root = root.resolve()
        self._kept: OrderedDict[tuple[Path, int, int], Trace] = OrderedDict()

    def path(self, name: str) -> Path:
        """A path below the folder, without links. Raises UsageError for one outside of it."""
        try:
            path = (self.root / name).resolve()
        except (OSError, ValueError, RuntimeError):
            raise UsageError(f"{name!r} is no path") from None
        if not path.is_relative_to(self.root):
            raise UsageError(f"{name!r} is outside of the folder that is served")
        return path

    def named(self, path: Path) -> str:
        """A path as answers show it: relative to the folder."""
        return path.relative_to(self.root).as_posix()

    def traces(self) -> Iterator[Path]:
        """The trace files in the folder, by name; links that lead out of it are left out."""
        for folder, folders, files in os.walk(self.root):
            folders.sort()
            for name in sorted(files):
                path = Path(folder, name)
                if name.endswith(ENDINGS) and _is_inside(path, self.root) and _is_trace(path):
                    yield path

    def trace(self, name: str) -> Trace:
        """A finished trace of the folder."""
        path = self.path(name)
        if not path.is_file():
            raise UsageError(f"there is no trace {name!r} in the folder; `traces` lists them")
        state = path.stat()
        key = path, state.st_mtime_ns, state.st_size
        if key not in self._kept:
            trace = load(path)
            if any(note.startswith(GROWING) for note in trace.notes):
                raise UsageError(f"the program of {name!r} still runs: its trace is not finished")
            self._kept[key] = trace
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    def fleet(self, name: str) -> Path:
        """A folder of `gradscope export` in which no link leads out of the served folder."""
        root = self.path(name)
        for folder, folders, files in os.walk(root):
            for each in (*folders, *files):
                path = Path(folder, each)
                if path.is_symlink() and not _is_inside(path, root):
                    raise UsageError(f"{each!r} in {name!r} is a link to outside of it")
        return root


def _is_inside(path: Path, root: Path) -> bool:
    """Whether a path leads to a file in the folder `root`; links in a circle lead nowhere."""
    try:
        return path.resolve().is_relative_to(root)
    except (OSError, RuntimeError):
        return False


def _is_trace(path: Path) -> bool:
    try:
        return is_trace(path)
    except OSError:
        return False
    except GradscopeError:
        return True  # its package is missing, which the error of `load` says
