"""Rows of process groups, the same for both engines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradscope.record.notes.log import columns_of, take_all
from gradscope.trace.schema import ProcessGroup

if TYPE_CHECKING:
    from gradscope.trace.writer import Writer
    from gradscope.watch.listener import RankGroup

COLUMNS = "id", "name", "described", "members"


class GroupRows:
    """Numbers the groups of one recording, and collects a row for each."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._numbers: dict[RankGroup, int] = {}
        self._new: list[tuple[Any, ...]] = []

    def number(self, group: RankGroup) -> int:
        """The number of a group."""
        number = self._numbers.get(group)
        if number is None:
            number = self._numbers[group] = len(self._numbers)
            intern = self._writer.intern
            self._new.append((number, intern(group.name), intern(group.described), group.members))
        return number

    def flush(self) -> None:
        """Pass new groups to the writer."""
        new = take_all(self._new)
        if new:
            self._writer.block(ProcessGroup, columns_of(COLUMNS, new))
