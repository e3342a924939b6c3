"""The names of buffers: nodes save them as tensors that no node created."""

from __future__ import annotations

import sys
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any
from weakref import ref

from gradscope.record.notes.log import take_all
from gradscope.record.notes.module_rows import below
from gradscope.trace.schema import Tensor
from gradscope.watch.in_place.by_identity import registered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gradscope.trace.writer import Writer

Key = tuple[Any, ...]
"""The traversal, address, sizes, strides and dtype of a tensor, as `PyTorchTensors.key` has it."""


class _Buffer:
    """A buffer in one place, from when it was first seen there until it was freed."""

    __slots__ = ("buffer", "place", "since", "until")

    def __init__(self, buffer: Any, place: Key) -> None:
        self.buffer = ref(buffer, self._freed)
        self.place, self.since = place, perf_counter_ns()
        self.until = 0  # it exists

    def _freed(self, _: object, now: Callable[[], int] = perf_counter_ns) -> None:
        self.until = now()  # as Python exits, names of this module are None


class BufferNames:
    """Names saved tensors that occupy the memory of a buffer.

    A buffer counts only for traversals that began while it was known to be in one place: another
    tensor cannot have had this memory then.
    """

    def __init__(self, writer: Writer, key: Callable[[Any], Key]) -> None:
        self._writer = writer
        self._key = key
        self._modules: list[tuple[ref[Any], str]] = []
        self._seen: dict[tuple[int, str], _Buffer] = {}
        """By module and name."""

        self._names: list[tuple[int, str]] = []

    def met(self, module: Any, path: str) -> None:
        """Called once for each module of a model."""
        if registered(module, "_buffers"):
            self._modules.append((ref(module), path))
            self._look_at(len(self._modules) - 1, module)

    def _look_at(self, number: int, module: Any) -> None:
        """Check where the buffers of a module are."""
        plain = sys.modules["torch"].Tensor
        for name, buffer in registered(module, "_buffers").items():
            if type(buffer) is not plain or buffer.requires_grad:
                continue
            place = self._key(buffer)[1:]
            known = self._seen.get((number, name))
            if known is None or known.buffer() is not buffer or known.place != place:
                self._seen[number, name] = _Buffer(buffer, place)

    def addresses(self) -> list[int]:
        """The addresses of the memory of all buffers."""
        for number, (weak, _) in enumerate(self._modules[:]):
            module = weak()
            if module is not None:
                self._look_at(number, module)
        return [each.place[0] for each in list(self._seen.values())]

    def name(self, tensors: Iterable[tuple[int, Key]]) -> None:
        """Name those of these tensors, which have new numbers, that are buffers."""
        known = {each.place: which for which, each in list(self._seen.items())}
        for number, key in tensors:
            which = known.get(key[1:])
            if which is None or not self._was_there(self._seen[which], key[0]):
                continue
            module, name = which
            self._names.append((number, below(self._modules[module][1], name)))

    def _was_there(self, known: _Buffer, walk: int) -> bool:
        """Whether a buffer was in its place during a traversal that began at this moment."""
        buffer = known.buffer()
        if buffer is None:
            return known.since <= walk <= known.until
        return known.since <= walk and bool(self._key(buffer)[1:] == known.place)

    def flush(self) -> None:
        """Pass new names to the writer."""
        rows = take_all(self._names)
        if rows:
            numbers, names = zip(*rows, strict=True)
            texts = [self._writer.intern(name) for name in names]
            self._writer.block(Tensor, {"id": numbers, "name": texts}, amend=True)
