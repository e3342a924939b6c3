"""Source lines, in a short form."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePath, PurePosixPath, PureWindowsPath

from gradscope.trace.schema import NONE
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


def own_site(trace: Trace, stack: int) -> Site:
    """The innermost line of a stack in a file that is not installed, if any."""
    for frame in trace.frames(stack):
        if not is_installed(frame.file):
            short = shorter(frame.file, str(trace.meta.get("cwd", "")))
            return Site(f"{short}:{frame.line}", frame.text.strip(), frame.file, frame.line)
    return site_of(trace, stack)


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
