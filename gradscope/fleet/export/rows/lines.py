"""The lines of the program in a trace, by their hash."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gradscope.analysis.identity.sites import Site, is_installed, shorter
from gradscope.analysis.lookups import Ids
from gradscope.fleet.export.cells import FleetCells, distinct_of, integers, text_hash, texts
from gradscope.trace.schema import NONE, Frame, Stack
from gradscope.trace.trace import Trace

Line = tuple[str, str, str, int]
"""File as it is shown, function, text, number."""


class HashedLines:
    """The hash of the line of each stack: its innermost line that is not in an installed package.

    If all of them are in installed packages, it is the innermost one.
    """

    def __init__(self, trace: Trace) -> None:
        self._lines: dict[int, Line] = {}  # that were asked for, by hash
        self._stacks = trace.table(Stack)
        self._cwd = str(trace.meta.get("cwd", ""))
        frames = trace.table(Frame)
        self._frames: dict[int, Line] = {}
        self._hashes: dict[int, int] = {}
        self._at: dict[tuple[str, int], tuple[str, int]] = {}  # function and hash, by place
        rows = list(trace.rows(Frame))
        for row in rows:
            line = shorter(row.file, self._cwd), row.function, row.text.strip(), row.line
            self._frames[row.id], self._hashes[row.id] = line, text_hash(*line[:3])
            self._at.setdefault((row.file, row.line), (row.function, self._hashes[row.id]))
        self._installed = {row.id for row in rows if is_installed(row.file)}
        self._chosen = self._own_frames() if len(frames) else {}

    def _own_frames(self) -> dict[int, int]:
        """The frame of each stack."""
        ids = self._stacks["id"].tolist()
        frames, parents = self._stacks["frame"].tolist(), self._stacks["parent"].tolist()
        of = dict(zip(ids, zip(frames, parents, strict=True), strict=True))
        chosen: dict[int, int] = {}
        for stack in ids:
            at, seen = stack, set[int]()
            while at in of and at not in seen:
                seen.add(at)
                frame, parent = of[at]
                if frame in self._frames and frame not in self._installed:
                    chosen[stack] = frame
                    break
                at = parent
            else:
                if of[stack][0] in self._frames:
                    chosen[stack] = of[stack][0]
        return chosen

    def of(self, stacks: Ids) -> FleetCells:
        """The column `line_hash` of rows with these stacks."""
        found, inverse = distinct_of(stacks)
        frames = [self._chosen.get(stack, NONE) for stack in found.tolist()]
        for frame in frames:
            if frame != NONE:
                self.keep(self._hashes[frame], self._frames[frame])
        known = np.array([frame != NONE for frame in frames], bool)
        hashes = np.array([self._hashes.get(frame, 0) for frame in frames], np.int64)
        return integers(hashes[inverse], known[inverse])

    def at(self, sites: Iterable[Site]) -> FleetCells:
        """The column `line_hash` of lines that may have no stack."""
        found = []
        for site in sites:
            function, _ = self._at.get((site.file, site.line), ("", 0))
            line = shorter(site.file, self._cwd), function, site.text.strip(), site.line
            known = bool(site.file)
            found.append((text_hash(*line[:3]) if known else 0, known))
            if known:
                self.keep(found[-1][0], line)
        hashes = np.array([each for each, _ in found], np.int64)
        return integers(hashes, np.array([known for _, known in found], bool))

    def keep(self, key: int, line: Line) -> None:
        """Add a line to the table, as if it had been asked for."""
        if key not in self._lines or line[3] < self._lines[key][3]:
            self._lines[key] = line

    def rows(self) -> dict[str, FleetCells]:
        """The table `line`: every line that was asked for."""
        every = sorted(self._lines.items(), key=lambda each: (each[1][0], each[1][3], each[0]))
        file, function, text = (texts([str(line[at]) for _, line in every]) for at in range(3))
        return {
            "line_hash": integers(np.array([key for key, _ in every], np.int64)),
            "file": file,
            "function": function,
            "text": text,
            "line": integers(np.array([line[3] for _, line in every], np.int64)),
        }
