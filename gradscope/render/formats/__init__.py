"""Every format a picture can be written in: one module each, which holds a `FORMAT`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from gradscope.errors import UsageError


class Drawn(NamedTuple):
    """A picture written down, and what there is to say of it."""

    content: bytes
    notes: tuple[str, ...] = ()


class Format:
    """One way to write a picture down. `needs_more`: a package or a program besides.

    `of_page`: it is no picture of a graph, but a page of the whole trace, of a ViewerScene.

    Written out, since the command line names formats: making a dataclass takes half a millisecond.
    """

    __slots__ = ("description", "extension", "name", "needs_more", "of_page", "write")

    def __init__(
        self,
        name: str,
        extension: str,
        description: str,
        write: Callable[[Any, Any], Drawn],
        *,
        needs_more: bool = False,
        of_page: bool = False,
    ) -> None:
        self.name = name
        self.extension = extension
        self.description = description
        self.write = write
        self.needs_more = needs_more
        self.of_page = of_page


def format_names() -> list[str]:
    """What `-f` accepts: the modules of this package."""
    return sorted(file.stem for folder in __path__ for file in Path(folder).glob("[!_]*.py"))


def format_help() -> str:
    """What the command line says of `-f`: as in "dot, json or svg."."""
    *names, last = format_names()
    return f"{', '.join(names)} or {last}." if names else f"{last}."


def format_called(name: str) -> Format:
    """The format of this name."""
    if name not in format_names():
        raise UsageError(f"there is no format {name!r}; choose {', '.join(format_names())}")
    found = import_module(f"{__name__}.{name}").FORMAT
    assert isinstance(found, Format)
    return found


def format_of_file(file_name: str) -> str:
    """The name of the format that a file's name asks for; "" when it asks for none."""
    _, dot, ending = file_name.rpartition(".")
    ending = {"gv": "dot", "htm": "html"}.get(ending.lower(), ending.lower())
    return ending if dot and ending in format_names() else ""
