"""Detects the release of large storages with PyTorch's own weak references.

A weak reference keeps a few words of the storage, but not its memory. The release is noticed at the
next check: at ends of backwards and steps, and when notes are flushed.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gradscope.record.notes.log import take_all
from gradscope.trace import schema

if TYPE_CHECKING:
    from gradscope.record.from_pytorch.memory.storage_rows import OtherNumbers
    from gradscope.record.session import Session


class Storages:
    """Storages that are followed, by the address of their StorageImpl."""

    def __init__(self, session: Session, numbers: OtherNumbers) -> None:
        self._session = session
        self._numbers = numbers
        self._alive: dict[int, int] = {}  # numbers by address of the weak reference
        self._gone: list[tuple[int, int]] = []
        self._rows: list[tuple[int, int, int, int]] = []
        self._kind = sys.modules["torch"].UntypedStorage

    def number(self, address: int, device: int, size: int) -> int:
        """The number of an existing storage, the same during its life."""
        found = self._alive.get(address)
        if found is not None and not self._kind._expired(address):
            return found
        if found is not None:
            self._ended(address)
        self._kind._new_with_weak_ptr(address)._weak_ref()
        number = self._alive[address] = self._numbers.one()
        self._rows.append((number, size, device, self._session.contexts.now()))
        return number

    def look(self) -> None:
        """Check which storages have been freed."""
        if self._alive:
            for address in list(self._alive):
                if self._kind._expired(address):
                    self._ended(address)

    def _ended(self, address: int) -> None:
        number = self._alive.pop(address, None)  # another thread may also check
        if number is not None:
            self._kind._free_weak_ref(address)
            self._gone.append((number, self._session.contexts.now()))

    def flush(self) -> None:
        """Pass new rows and releases to the writer."""
        self.look()
        write = self._session.writer.block
        for names, rows, amend in (
            (("id", "bytes", "device", "born"), take_all(self._rows), False),
            (("id", "freed"), take_all(self._gone), True),
        ):
            if rows:
                columns = zip(names, zip(*rows, strict=True), strict=True)
                write(schema.Storage, {name: list(cells) for name, cells in columns}, amend=amend)

    def stop(self) -> None:
        """Stop following storages."""
        self.look()
        while self._alive:
            self._kind._free_weak_ref(self._alive.popitem()[0])
