"""Source files of the traced program, for the editor and in the trace."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from gradscope.errors import UnknownNameError
from gradscope.trace.schema import Frame
from gradscope.trace.trace import Trace

GAP = "⋯"


class Sources:
    """Maps files; a file that no longer exists is shown as far as it was recorded."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._folder = str(trace.meta.get("cwd") or "")

    @cached_property
    def _lines(self) -> dict[str, dict[int, str]]:
        """The recorded lines of each file, with their text."""
        found: dict[str, dict[int, str]] = {}
        for frame in self.trace.rows(Frame):
            found.setdefault(frame.file, {})[frame.line] = frame.text
        return found

    @property
    def all(self) -> list[str]:
        """All recorded files, as named in the trace."""
        return [*self._lines]

    def lines(self, file: str) -> Mapping[int, str]:
        """The recorded lines of a file, by number."""
        return self._lines.get(file, {})

    def path(self, file: str) -> Path:
        return Path(self._folder, file)

    def told(self, file: str) -> dict[str, Any]:
        path = self.path(file)
        shown: dict[str, Any] = {"name": path.name, "path": str(path)}
        if not path.is_file():
            shown["sourceReference"] = self.all.index(file) + 1
        return shown

    def text(self, reference: int) -> str:
        """The recorded lines of a file as a text, each at its line number."""
        if not 0 < reference <= len(self.all):
            raise UnknownNameError(f"there is no source {reference} in this trace")
        lines = self._lines[self.all[reference - 1]]
        last = max(lines, default=0)
        return "\n".join(lines.get(number, GAP) for number in range(1, last + 1))

    def recorded(self, path: str) -> str:
        """The name in the trace of a file of the editor; "" if it was not recorded."""
        same = [file for file in self.all if str(self.path(file)) == path]
        ends = [file for file in self.all if f"/{path}".endswith(f"/{file.lstrip('./')}")]
        return next(iter(same or ends), "")

    def nearest(self, file: str, line: int) -> int:
        """The nearest recorded line of a file: this one, the next below, or above."""
        lines = sorted(self._lines.get(file, ()))
        below = [each for each in lines if each >= line]
        return below[0] if below else lines[-1] if lines else line
