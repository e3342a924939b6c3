"""Blocks that several files have in common, which are decoded once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gradscope.trace.ragged import frozen
from gradscope.trace.table import FrozenColumns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gradscope.trace.ragged import Data
    from gradscope.trace.table import Block

ROOM: Final = 1 << 25
"""Number of bytes of lines that are kept: later ones are decoded again."""


class CommonBlocks:
    """The blocks of the files that were read so far, by the bytes of their lines."""

    def __init__(self) -> None:
        self._blocks: dict[bytes, Block] = {}
        self._kept: set[int] = set()  # the `id` of each of these blocks, which stay alive
        self._joined: dict[tuple[str | int, ...], FrozenColumns] = {}
        self._left = ROOM

    def get(self, line: bytes) -> Block | None:
        return self._blocks.get(line)

    def keep(self, line: bytes, block: Block) -> None:
        """Add a block; from now on its columns cannot be written."""
        if len(line) <= self._left:
            self._left -= len(line)
            for data in block.data.values():
                frozen(data)
            self._blocks[line] = block
            self._kept.add(id(block))

    def joined(
        self,
        table: str,
        blocks: Sequence[Block],
        join: Callable[[str, Sequence[Block]], dict[str, Data]],
    ) -> dict[str, Data]:
        """The columns of these blocks of a table; blocks in common are joined once."""
        numbers = [*map(id, blocks)]
        if not self._kept.issuperset(numbers):
            return join(table, blocks)
        key = (table, *numbers)
        if key not in self._joined:
            data = {name: frozen(cells) for name, cells in join(table, blocks).items()}
            self._joined[key] = FrozenColumns(data)
        return self._joined[key]
