"""The files of a program are read from its trace, as far as they are Python."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gradscope.analysis.findings import Evidence
from gradscope.analysis.identity.sites import Site
from gradscope.analysis.source.files import SourceFiles
from gradscope.analysis.source.functions import parsed
from gradscope.trace.schema import Source
from tests.shared.by_hand import trace_of


class Named(NamedTuple):
    """A name in a file."""

    line: int
    name: str


def names(tree: ast.Module) -> Iterator[Named]:
    yield from (Named(n.lineno, n.id) for n in ast.walk(tree) if isinstance(n, ast.Name))


def all_names(trees: Sequence[ast.Module]) -> Iterator[tuple[int, Named]]:
    for number, tree in enumerate(trees):
        yield from ((number, each) for each in names(tree))


TRACE = trace_of(
    Source(0, file="/home/me/a.py", text="\n    \nif one:\n    two\n"),
    Source(1, file="broken.py", text="if one\n"),
    Source(2, file="b.py", text="three\r\n"),
    meta={"cwd": "/home/me"},
)


def test_what_is_found_has_its_line_and_its_file() -> None:
    found = TRACE.once(SourceFiles).each(names)

    assert [(each.found.name, each.site, each.evidence) for each in found] == [
        ("one", Site("a.py:3", "if one:"), Evidence("source", 0)),
        ("two", Site("a.py:4", "two"), Evidence("source", 0)),
        ("three", Site("b.py:1", "three"), Evidence("source", 2)),
    ]
    assert [each.found for each in TRACE.once(SourceFiles).across(all_names)] == [
        each.found for each in found
    ]


def test_each_function_is_asked_once() -> None:
    files = TRACE.once(SourceFiles)

    assert files.each(names) is files.each(names)


def deeper(tree: ast.Module) -> Iterator[Named]:
    yield Named(1, "x")
    yield from deeper(tree)


def test_text_that_cannot_be_followed_finds_nothing() -> None:
    assert TRACE.once(SourceFiles).each(deeper) == ()
    assert parsed("x = " + "(" * 5000) is None
    assert parsed("x = '\0'") is None


def test_a_warning_about_the_text_is_none_of_gradscopes() -> None:
    assert parsed(r'x = "\d"' + "\nif x is 1: pass\n") is not None
