"""The names of buffers: nodes save them as tensors that no node created."""

from __future__ import annotations

import sys
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any
from weakref import ref

from gradscope.record.notes.log import take_all
from gradscope.record.notes.module_rows import below
from gradscope.trace.schema import Tensor
from gradscope.watch.in_place.by_identity import attributes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gradscope.trace.writer import Writer

Key = tuple[Any, ...]
"""The traversal, address, sizes, strides and dtype of a tensor, as `PyTorchTensors.key` has it."""


class BufferNames:
    """Names saved tensors that occupy the memory of a buffer.

    A buffer counts only for traversals that began after it was first seen, and as long as it has
    kept its memory since: another tensor cannot have had this memory in between.
    """

    def __init__(self, writer: Writer, key: Callable[[Any], Key]) -> None:
        self._writer = writer
        self._key = key
        self._modules: list[tuple[ref[Any], str]] = []
        self._seen: dict[str, tuple[ref[Any], Key, int]] = {}  # by name: since when
        self._names: list[tuple[int, str]] = []

    def met(self, module: Any, path: str) -> None:
        """Called once for each module of a model."""
        if attributes(module).get("_buffers"):
            self._modules.append((ref(module), path))
            self._look_at(module, path)

    def _look_at(self, module: Any, path: str) -> None:
        plain = sys.modules["torch"].Tensor
        for name, buffer in list(attributes(module).get("_buffers", {}).items()):
            if type(buffer) is not plain or buffer.requires_grad:
                continue
            place, called = self._key(buffer)[1:], below(path, name)
            known = self._seen.get(called)
            if known is None or known[0]() is not buffer or known[1] != place:
                self._seen[called] = ref(buffer), place, perf_counter_ns()

    def addresses(self) -> list[int]:
        """The addresses of the memory of all buffers."""
        for weak, path in self._modules:
            module = weak()
            if module is not None:
                self._look_at(module, path)
        return [place[0] for _, place, _ in self._seen.values()]

    def name(self, tensors: Iterable[tuple[int, Key]]) -> None:
        """Name those of these tensors, which have new numbers, that are buffers."""
        known = {place: (since, name) for name, (_, place, since) in self._seen.items()}
        for number, key in tensors:
            since, name = known.get(key[1:], (0, ""))
            if name and since <= key[0]:
                self._names.append((number, name))

    def flush(self) -> None:
        """Pass new names to the writer."""
        rows = take_all(self._names)
        if rows:
            numbers, names = zip(*rows, strict=True)
            texts = [self._writer.intern(name) for name in names]
            self._writer.block(Tensor, {"id": numbers, "name": texts}, amend=True)
