"""What the program calls leaves that no module names: variables, where it called a backward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ref

from gradscope.record.notes.local_names import names_around
from gradscope.record.notes.log import take_all
from gradscope.trace.schema import Tensor

if TYPE_CHECKING:
    from collections.abc import Container
    from types import FrameType

    from gradscope.record.notes.sites import Sites
    from gradscope.trace.writer import Writer

FRAMES = 3
"""So many of the program's frames are looked through, from the one that calls backward outwards."""


class LeafNames:
    """Looks each leaf up once, at the first backward that comes to it."""

    def __init__(self, writer: Writer, sites: Sites) -> None:
        self._writer = writer
        self._sites = sites
        self._nameless: list[tuple[ref[Any], int]] = []
        self._named: list[tuple[int, int]] = []

    def met(self, tensor: Any, number: int, _storage: int) -> None:
        """A leaf has been given a number."""
        if tensor.requires_grad and tensor.is_leaf:
            self._nameless.append((ref(tensor), number))

    def look(self, frame: FrameType | None, has_one: Container[int]) -> None:
        """A backward is called on this frame; some leaves are named by modules."""
        if not self._nameless:
            return
        waiting = [each for each in take_all(self._nameless) if each[1] not in has_one]
        if not waiting:
            return
        names = names_around(frame, self._sites.is_machinery, FRAMES)
        for weak, number in waiting:
            name = names.get(id(weak()))
            if name is not None:
                self._named.append((number, self._writer.intern(name)))

    def flush(self) -> None:
        """Hand new names to the writer."""
        rows = take_all(self._named)
        if rows:
            numbers, names = zip(*rows, strict=True)
            self._writer.block(Tensor, {"id": [*numbers], "name": [*names]}, amend=True)
