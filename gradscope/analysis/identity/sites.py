"""Where in the program something was written, as short as stays clear."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePath, PurePosixPath, PureWindowsPath

from gradscope.trace.schema import NONE
from gradscope.trace.schema.declare import Row
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class Site:
    """A source line: "train.py:41" and its text."""

    place: str = ""  # "train.py:41"; "" when the trace does not know
    text: str = ""  # of that line
    file: str = field(default="", compare=False)  # as recorded: from the folder it was run in
    line: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return self.place


def at(site: Site) -> str:
    """ " at train.py:41", where it is known."""
    return f" at {site}" if site.place else ""


def in_brackets(site: Site) -> str:
    """ " (train.py:41)", where it is known."""
    return f" ({site})" if site.place else ""


class _Known:
    """Lines that were looked up in a trace, by stack: the same few are asked for often."""

    def __init__(self, _: Trace) -> None:
        self.sites: dict[int, Site] = {NONE: Site()}


INSTALLED = ("/site-packages/", "/dist-packages/", "/lib/python3.")
"""In the paths of files that somebody installed, and did not write."""


def is_installed(file: str) -> bool:
    """Whether somebody else wrote it."""
    return any(part in file.replace("\\", "/") for part in INSTALLED)


def own_site(trace: Trace, stack: int) -> Site:
    """The innermost line of a stack in a file of the program's own, if it has one."""
    for frame in trace.frames(stack):
        if not is_installed(frame.file):
            short = _shorter(frame.file, str(trace.meta.get("cwd", "")))
            return Site(f"{short}:{frame.line}", frame.text.strip(), frame.file, frame.line)
    return site_of(trace, stack)


def site_of(trace: Trace, stack: int) -> Site:
    """The innermost line of a stack; an empty Site when the trace does not know."""
    known = trace.once(_Known).sites
    if stack not in known:
        file, _, line = trace.site(stack).rpartition(":")
        number = int(line) if line.isdecimal() else 0
        known[stack] = Site(site(trace, stack), trace.source(stack).strip(), file, number)
    return known[stack]


def site_of_row(trace: Trace, kind: type[Row], id: int) -> Site:
    """The line of a row that has a stack; an empty Site when the trace has no such row."""
    table = trace.table(kind)
    return site_of(trace, int(table["stack"][table.index(id)])) if table.has(id) else Site()


def site_at(trace: Trace, file: str, line: int, text: str) -> Site:
    """A line of a file that has no stack: of the source that is in the trace."""
    return Site(f"{_shorter(file, str(trace.meta.get('cwd', '')))}:{line}", text, file, line)


def site(trace: Trace, stack: int) -> str:
    """As in "train.py:41", relative to the directory the script ran in; "" when not known."""
    if stack == NONE:
        return ""
    place: str = trace.site(stack)
    path, colon, line = place.rpartition(":")
    return f"{_shorter(path, str(trace.meta.get('cwd', '')))}{colon}{line}"


def _shorter(path: str, directory: str) -> str:
    pure: type[PurePath] = PureWindowsPath if "\\" in path[:3] else PurePosixPath
    whole = pure(path)
    if not whole.is_absolute():
        return path
    if directory and whole.is_relative_to(directory):
        return str(whole.relative_to(directory))
    return "/".join(whole.parts[-2:]) if len(whole.parts) > 2 else path
