"""Joins the page's modules into one script, without a bundler.

The modules import only one another, and their names are unique, so that they can share one scope.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from gradscope.errors import RenderingError

FOLDER = Path(__file__).parent
SCRIPTS = FOLDER / "scripts"
ENTRY = "main"

IMPORT = re.compile(
    r'^import \{[^}]*\} from "(?:\./|\.\./)(?:\w+/)?(?P<module>\w+)\.js";\n', re.MULTILINE
)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|let|class)\b)", re.MULTILINE)
LEFT_OVER = re.compile(r"^\s*(?:import|export)\b.*", re.MULTILINE)


@cache
def script() -> str:
    """All modules as one strict script, each after those it imports."""
    return '"use strict";\n(() => {\n' + joined(ENTRY) + "})();\n"


def joined(entry: str) -> str:
    """A module and all that it needs, without imports and exports."""
    parts = (f"// {name}.js\n{_bare(name, _read(name))}" for name in _in_order(entry, [], []))
    return "\n".join(parts)


def module_names() -> list[str]:
    return sorted(path.stem for path in SCRIPTS.rglob("*.js"))


def _read(name: str) -> str:
    (path,) = SCRIPTS.rglob(f"{name}.js")
    return path.read_text(encoding="utf-8")


def _in_order(name: str, around: list[str], done: list[str]) -> Iterator[str]:
    """The module's imports, then itself; each once."""
    if name in around:
        raise RenderingError(
            f"the page's scripts import each other in a cycle: {', '.join(around)}"
        )
    if name in done:
        return
    for found in IMPORT.finditer(_read(name)):
        yield from _in_order(found["module"], [*around, name], done)
    done.append(name)
    yield name


def _bare(name: str, text: str) -> str:
    """The text without its imports and exports."""
    text = EXPORT.sub("", IMPORT.sub("", text))
    left = LEFT_OVER.search(text)
    if left:
        raise RenderingError(f"{name}.js has an unsupported import or export: {left[0]}")
    return text
