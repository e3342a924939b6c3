"""Source lines, in a short form."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePath, PurePosixPath, PureWindowsPath

import numpy as np

from gradscope.trace.schema import NONE, Frame, Stack
from gradscope.trace.schema.declare import Row
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class Site:
    """A source line: "train.py:41" and its text."""

    place: str = ""  # "train.py:41"; "" if not recorded
    text: str = ""  # of that line
    file: str = field(default="", compare=False)  # as recorded: relative to the working directory
    line: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return self.place


def at(site: Site) -> str:
    """ " at train.py:41", or "" if not recorded."""
    return f" at {site}" if site.place else ""


def in_brackets(site: Site) -> str:
    """ " (train.py:41)", or "" if not recorded."""
    return f" ({site})" if site.place else ""


class _Known:
    """A cache of lines by stack."""

    def __init__(self, _: Trace) -> None:
        self.sites: dict[int, Site] = {NONE: Site()}


INSTALLED = ("/site-packages/", "/dist-packages/", "/lib/python3.")
"""Parts of the paths of installed files."""


def is_installed(file: str) -> bool:
    """Whether the file belongs to an installed package."""
    return any(part in file.replace("\\", "/") for part in INSTALLED)


class _OwnFrames:
    """The innermost frame of each stack in a file that is not installed.

    They are looked for in all stacks at once: traces of many ranks have many that are equal.
    """

    def __init__(self, trace: Trace) -> None:
        self._stacks, self._frames = trace.table(Stack), trace.table(Frame)
        self._cwd = str(trace.meta.get("cwd", ""))
        self._sites: dict[int, Site] = {}
        files, of_frame = np.unique(self._frames["file"], return_inverse=True)
        is_own = np.array([not is_installed(file) for file in trace.texts(files)], bool)
        own = np.flatnonzero(is_own[of_frame.reshape(-1)]) if len(files) else files
        frame = self._frames.positions(self._stacks["frame"])
        self._found = np.where(np.isin(frame, own), frame, NONE)
        around = self._stacks.positions(self._stacks["parent"])
        # Each round looks twice as far. A damaged trace may have stacks around themselves.
        for _ in range(len(around).bit_length() + 1):
            rest = np.flatnonzero((self._found == NONE) & (around != NONE))
            if not len(rest):
                break
            self._found[rest] = self._found[around[rest]]
            around[rest] = around[around[rest]]

    def site(self, stack: int) -> Site | None:
        if not self._stacks.has(stack):
            return None
        place = int(self._found[self._stacks.index(stack)])
        if place == NONE:
            return None
        if place not in self._sites:
            frame = self._frames.at(place)
            short = shorter(frame.file, self._cwd)
            self._sites[place] = Site(
                f"{short}:{frame.line}", frame.text.strip(), frame.file, frame.line
            )
        return self._sites[place]


def own_site(trace: Trace, stack: int) -> Site:
    """The innermost line of a stack in a file that is not installed, if any."""
    return trace.once(_OwnFrames).site(stack) or site_of(trace, stack)


def site_of(trace: Trace, stack: int) -> Site:
    """The innermost line of a stack; an empty Site if not recorded."""
    known = trace.once(_Known).sites
    if stack not in known:
        file, _, line = trace.site(stack).rpartition(":")
        number = int(line) if line.isdecimal() else 0
        known[stack] = Site(site(trace, stack), trace.source(stack).strip(), file, number)
    return known[stack]


def site_of_row(trace: Trace, kind: type[Row], id: int) -> Site:
    """The line of a row with a stack; an empty Site if the row does not exist."""
    table = trace.table(kind)
    return site_of(trace, int(table["stack"][table.index(id)])) if table.has(id) else Site()


def site_at(trace: Trace, file: str, line: int, text: str) -> Site:
    """A line of the recorded source, without a stack."""
    return Site(f"{shorter(file, str(trace.meta.get('cwd', '')))}:{line}", text, file, line)


def site(trace: Trace, stack: int) -> str:
    """As in "train.py:41", relative to the working directory of the script; "" if not recorded."""
    if stack == NONE:
        return ""
    place: str = trace.site(stack)
    path, colon, line = place.rpartition(":")
    return f"{shorter(path, str(trace.meta.get('cwd', '')))}{colon}{line}"


def shorter(path: str, directory: str) -> str:
    """A path below the directory relative to it; of others, the last two names."""
    pure: type[PurePath] = PureWindowsPath if "\\" in path[:3] else PurePosixPath
    whole = pure(path)
    if not whole.is_absolute():
        return path
    if directory and whole.is_relative_to(directory):
        return str(whole.relative_to(directory))
    return "/".join(whole.parts[-2:]) if len(whole.parts) > 2 else path
