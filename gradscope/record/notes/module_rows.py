"""Modules of the model with their paths, and the names of their parameters."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from threading import RLock
from typing import TYPE_CHECKING, Any
from weakref import ref

from gradscope.record.notes.local_names import module_name
from gradscope.record.notes.log import take_all
from gradscope.trace.schema import NONE, Alias, Module, Tensor
from gradscope.watch.in_place.by_identity import registered

if TYPE_CHECKING:
    from gradscope.trace.writer import Writer


class ModuleRows:
    """Ids of modules. When a root is first seen, all modules below it get ids."""

    def __init__(
        self, writer: Writer, number_of: Callable[[Any], int], is_machinery: Callable[[Any], bool]
    ) -> None:
        self._is_machinery = is_machinery
        self._writer = writer
        self._number_of = number_of
        self._lock = RLock()
        self.by_id: dict[int, int] = {}
        """Ids of modules, by id()."""
        self._refs: dict[int, ref[Any]] = {}
        self.paths: list[str] = []
        """Paths of all known modules, by id."""
        self._rows: list[dict[str, Any]] = []
        self._names: list[tuple[int, int]] = []
        self._aliases: list[tuple[int, int, int, int]] = []
        self.named: set[int] = set()
        self.names_buffers = False
        self.met: Sequence[Callable[[Any], None]] = ()
        """Functions that are called once for each module."""

    def id(self, module: Any, parent: int) -> int:
        """The id of a module that runs inside `parent`."""
        found = self.by_id.get(id(module))
        if found is None:
            with self._lock:
                self._family(module, parent)
            found = self.by_id[id(module)]
        return found

    def known(self, module: Any) -> int | None:
        """The id of a module, if it is known."""
        return self.by_id.get(id(module))

    def _add(self, module: Any, path: str) -> int:
        """Assign an id to a module while it exists: later its id() may belong to another."""
        key = id(module)
        known, refs = self.by_id, self._refs

        def gone(_: Any) -> None:
            known.pop(key, None)
            refs.pop(key, None)

        self._refs[key] = ref(module, gone)
        number = self.by_id[key] = len(self.paths)
        self.paths.append(path)
        return number

    def _family(self, root: Any, parent: int) -> None:
        pending = [(root, "", parent)]
        first = len(self.paths)
        while pending:  # in the order of named_parameters(), so that the same name is the first
            module, path, above = pending.pop()
            known = self.by_id.get(id(module))
            if known is not None:
                self._aliases.append((self._writer.intern(path), NONE, known, first))
                continue
            number = self._add(module, path)
            for told in self.met:
                told(module)
            self._rows.append({
                "id": number, "path": self._writer.intern(path),
                "type": self._writer.intern(type(module).__qualname__), "parent": above,
                "name": self._name(module) if module is root and parent == NONE else 0,
                "parameters": [
                    self._named(parameter, below(path, name), first)
                    for name, parameter in registered(module, "_parameters").items()
                    if parameter is not None
                ],
            })  # fmt: skip
            buffers = registered(module, "_buffers") if self.names_buffers else {}
            for name, buffer in buffers.items():
                if buffer is not None:
                    self._named(buffer, below(path, name), first)
            children = registered(module, "_modules").items()
            pending += [
                (child, below(path, name), number)
                for name, child in reversed(children)
                if child is not None
            ]

    def _name(self, root: Any) -> int:
        """The name of a root module in the program."""
        frame = sys._getframe(1)  # its own frame would refer to itself
        return self._writer.intern(module_name(root, frame, self._is_machinery))

    def _named(self, parameter: Any, name: str, root: int) -> int:
        """The number of a parameter. A shared parameter has the first of its names."""
        number = self._number_of(parameter)
        if number in self.named:
            self._aliases.append((self._writer.intern(name), number, NONE, root))
        elif number != NONE:
            self.named.add(number)
            self._names.append((number, self._writer.intern(name)))
        return number

    def flush(self, ids: Callable[[Any], Any]) -> None:
        """Pass new modules and names to the writer; `ids` converts numbers to ids."""
        rows = take_all(self._rows)
        if rows:
            columns = {name: [row[name] for row in rows] for name in rows[0]}
            columns["parameters"] = [list(ids(numbers)) for numbers in columns["parameters"]]
            self._writer.block(Module, columns)
        self._flush_aliases(ids)
        names = take_all(self._names)
        if names:
            numbers, texts = zip(*names, strict=True)
            self._writer.block(Tensor, {"id": ids(numbers), "name": texts}, amend=True)

    def _flush_aliases(self, ids: Callable[[Any], Any]) -> None:
        rows = take_all(self._aliases)
        if rows:
            path, tensor, module, root = (list(each) for each in zip(*rows, strict=True))
            pairs = zip(tensor, list(ids(tensor)), strict=True)
            numbers = [NONE if each == NONE else id for each, id in pairs]
            told = {"path": path, "tensor": numbers, "module": module, "root": root}
            self._writer.block(Alias, told)


def below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
