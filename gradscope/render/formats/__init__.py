"""The formats of `render`: one module each, which contains a `FORMAT`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from gradscope.errors import UsageError


class Drawn(NamedTuple):
    """A picture in a format, with notes about it."""

    content: bytes
    notes: tuple[str, ...] = ()
    holds: str = ""  # as in "212 slices", if it is not a picture


Takes: TypeAlias = Literal["picture", "page", "tracks", "network"]
"""The input of a format: a picture of the graph (a GraphScene); or for a whole trace, the page (a
ViewerScene), the timeline (Tracks), or the graph with all its nodes (a Network)."""


class Format:
    """A format of `render`. `needs_more`: an additional package or program.

    `endings`: file extensions of the format besides `.NAME`.

    A plain class, because the command line lists formats: creating a dataclass takes half a
    millisecond.
    """

    __slots__ = ("description", "endings", "extension", "name", "needs_more", "takes", "write")

    def __init__(
        self,
        name: str,
        extension: str,
        description: str,
        write: Callable[[Any, Any], Drawn],
        *,
        needs_more: bool = False,
        takes: Takes = "picture",
        endings: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.extension = extension
        self.description = description
        self.write = write
        self.needs_more = needs_more
        self.takes = takes
        self.endings = endings


def format_names() -> list[str]:
    """The values of `-f`: the modules of this package."""
    return sorted(file.stem for folder in __path__ for file in Path(folder).glob("[!_]*.py"))


def format_help() -> str:
    """The help text of `-f`: as in "dot, json or svg."."""
    *names, last = format_names()
    return f"{', '.join(names)} or {last}." if names else f"{last}."


def format_called(name: str) -> Format:
    if name not in format_names():
        raise UsageError(f"there is no format {name!r}; choose {', '.join(format_names())}")
    found = import_module(f"{__name__}.{name}").FORMAT
    assert isinstance(found, Format)
    return found


def format_of_file(file_name: str) -> str:
    """The format for the extension of a file name; "" if there is none."""
    ends = file_name.lower().split(".")[1:]
    names = format_names()
    # In "run.speedscope.json" the more specific extension comes first.
    for name in (each for each in ends[-2:] if each in names):
        if name == ends[-1] or file_name.lower().endswith(format_called(name).endings):
            return name
    for name in names if ends else ():
        if file_name.lower().endswith(format_called(name).endings):
            return name
    return ""
