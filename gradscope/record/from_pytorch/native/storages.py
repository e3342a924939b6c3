"""Large memory followed to its end, by PyTorch's own weak references to storages.

What holds one keeps a few words of the storage, and none of its memory. That it has gone is seen at
the next look: at ends of backwards and steps, and as notes are flushed.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gradscope.record.notes.log import take_all
from gradscope.trace import schema

if TYPE_CHECKING:
    from gradscope.record.from_pytorch.storage_rows import OtherNumbers
    from gradscope.record.session import Session


class Storages:
    """Those that are followed, by the address of what PyTorch knows of them."""

    def __init__(self, session: Session, numbers: OtherNumbers) -> None:
        self._session = session
        self._numbers = numbers
        self._alive: dict[int, int] = {}  # whose numbers; the address is that of a weak reference
        self._gone: list[tuple[int, int]] = []
        self._rows: list[tuple[int, int, int, int]] = []
        self._kind = sys.modules["torch"].UntypedStorage

    def number(self, address: int, device: int, size: int) -> int:
        """The number of a storage that is there; the same as long as it is."""
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
        """See which have gone."""
        if self._alive:
            for address in list(self._alive):
                if self._kind._expired(address):
                    self._ended(address)

    def _ended(self, address: int) -> None:
        number = self._alive.pop(address, None)  # another thread may look, too
        if number is not None:
            self._kind._free_weak_ref(address)
            self._gone.append((number, self._session.contexts.now()))

    def flush(self) -> None:
        """Hand new rows to the writer, and what has gone."""
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
        """Follow nothing any longer."""
        self.look()
        while self._alive:
            self._kind._free_weak_ref(self._alive.popitem()[0])
