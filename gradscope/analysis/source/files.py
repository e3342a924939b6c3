"""The program's own files in the trace, and searches in their text.

To add a search: write a function of a file's tree (or of all trees, for `across`) in this folder,
and pass it to `trace.once(SourceFiles)`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, Generic, Protocol, TypeVar

from gradscope.analysis.findings import Evidence
from gradscope.analysis.identity.sites import Site, site_at
from gradscope.analysis.source.functions import parsed
from gradscope.trace.schema import Source
from gradscope.trace.trace import Trace


class OnALine(Protocol):
    """Something found in a file, with its line."""

    @property
    def line(self) -> int: ...


F = TypeVar("F", bound=OnALine)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that can be read as Python."""

    trace: Trace
    id: int
    name: str
    lines: Sequence[str]
    tree: ast.Module

    def site(self, line: int) -> Site:
        return site_at(self.trace, self.name, line, self.lines[line - 1].strip())


@dataclass(frozen=True, slots=True)
class InSource(Generic[F]):
    """Something found in a file of the program."""

    found: F
    file: SourceFile

    @property
    def site(self) -> Site:
        return self.file.site(self.found.line)

    @property
    def evidence(self) -> Evidence:
        return Evidence(Source.TABLE, self.file.id)


class SourceFiles:
    """All files of the program in a trace; each search runs once."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._known: dict[Callable[..., Any], Any] = {}

    @cached_property
    def _files(self) -> tuple[SourceFile, ...]:
        read = ((row, _tree(row.text)) for row in self._trace.rows(Source))
        return tuple(
            SourceFile(self._trace, row.id, row.file, row.text.split("\n"), tree)
            for row, tree in read
            if tree is not None
        )

    def rewritten(self, site: Site, code: str) -> tuple[int, list[ast.Module]] | None:
        """The trees of all files, one of them with another line, and which one that is.

        None: the line is not there, or the file cannot be read with the new one.
        """
        for number, file in enumerate(self._files):
            if file.name == site.file and 0 < site.line <= len(file.lines):
                old = file.lines[site.line - 1]
                line = old[: len(old) - len(old.lstrip())] + code
                lines = [*file.lines[: site.line - 1], line, *file.lines[site.line :]]
                tree = parsed("\n".join(lines))
                trees = [each.tree for each in self._files]
                trees[number : number + 1] = [tree] if tree is not None else []
                return (number, trees) if tree is not None else None
        return None

    def each(self, find: Callable[[ast.Module], Iterable[F]]) -> Sequence[InSource[F]]:
        """The results of a search in each file, in order."""
        return self._once(find, lambda: self._in_each(find))

    def across(
        self, find: Callable[[Sequence[ast.Module]], Iterable[tuple[int, F]]]
    ) -> Sequence[InSource[F]]:
        """The results of a search in all files, each with the index of its file."""
        return self._once(find, lambda: self._in_all(find))

    def _once(
        self, find: Callable[..., Any], make: Callable[[], Iterator[InSource[F]]]
    ) -> Sequence[InSource[F]]:
        if find not in self._known:
            self._known[find] = tuple(make())
        known: Sequence[InSource[F]] = self._known[find]
        return known

    def _in_each(self, find: Callable[[ast.Module], Iterable[F]]) -> Iterator[InSource[F]]:
        for file in self._files:
            yield from (InSource(each, file) for each in _found_in(find, file.tree))

    def _in_all(
        self, find: Callable[[Sequence[ast.Module]], Iterable[tuple[int, F]]]
    ) -> Iterator[InSource[F]]:
        trees = tuple(file.tree for file in self._files)
        for number, each in _found_across(find, trees):
            yield InSource(each, self._files[number])


T = TypeVar("T")

# Ranks of a program have the same files: they are read and searched once.
_tree = lru_cache(maxsize=64)(parsed)


@lru_cache(maxsize=1024)
def _found_in(find: Callable[[ast.Module], Iterable[T]], tree: ast.Module) -> Sequence[T]:
    return _tried(partial(find, tree))


@lru_cache(maxsize=64)
def _found_across(
    find: Callable[[Sequence[ast.Module]], Iterable[T]], trees: tuple[ast.Module, ...]
) -> Sequence[T]:
    return _tried(partial(find, trees))


def _tried(find: Callable[[], Iterable[T]]) -> Sequence[T]:
    """The results; none if expressions are nested deeper than Python's recursion limit."""
    try:
        return tuple(find())
    except RecursionError:
        return ()
