"""Recording of backwards that run on several threads, and of tensors on other devices."""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Any

from gradscope.record.notes.log import take_all
from gradscope.runtime.core.graph.input_buffer import ADDED_IN_PLACE, MADE, UNDEFINED
from gradscope.trace.schema import events

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradscope.record.from_runtime.cold.catalog import Catalog
    from gradscope.record.notes.positions.contexts import Contexts


class ThreadNotes:
    """The part of the probe that follows several threads.

    With one thread, the run of a node is one short record. With several threads, events of other
    threads may lie between any two events, so each is recorded separately, with its queue.
    """

    catalog: Catalog
    contexts: Contexts
    base: int
    note: Callable[..., int]

    def queued(self, task: Any, node: Any, queue: Any, length: int) -> None:
        self.note(events.Push, task, node, task.reentrant_depth, length, self._number(queue))

    def unqueued(self, task: Any, node: Any, queue: Any, length: int) -> None:
        self.note(events.Pop, task, node, length, self._number(queue))

    def waits(self, queue: Any) -> None:
        self.note(events.Wait, None, None, self._number(queue))

    def wakes(self, queue: Any) -> None:
        self.note(events.Wake, None, None, self._number(queue))

    def handed_on(
        self, task: Any, node: Any, following: Any, index: int, nr: int, how: int, left: int
    ) -> None:
        """Record a gradient that passed from one node to the next."""
        source = self.catalog.number_of_node(node) - self.base - 2 >> 1
        self.note(events.Decrement, task, following, source, index, left)
        kind, undefined = how % UNDEFINED, int(how >= UNDEFINED)
        if kind == MADE:
            self.note(events.BufferMade, task, following, nr, undefined)
        else:
            in_place = int(kind == ADDED_IN_PLACE)
            self.note(events.BufferAdded, task, following, nr, in_place, undefined)

    def placed(self, tensor: Any, device: Any) -> None:
        if tensor.record_nr > self.base:
            self.catalog.places.moved(tensor, self.catalog.number_of(tensor), device)

    def _number(self, queue: Any) -> int:
        """The number of a queue: that of the thread it belongs to."""
        return self.contexts.threads.of(queue.state).id


class DeviceNumbers:
    """The devices of a recording, and tensors that are not on the CPU."""

    def __init__(self, writer: Any) -> None:
        from gradscope.trace import schema

        self._writer, self._device = writer, schema.Device
        self._ids: dict[str, int] = {}
        self._lock = RLock()
        self._moved: list[tuple[int, int, int]] = []
        self.of("cpu")

    def of(self, device: Any) -> int:
        """The id of a device."""
        name = str(device)
        found = self._ids.get(name)
        return self._add(name) if found is None else found

    def _add(self, name: str) -> int:
        with self._lock:
            if name not in self._ids:
                found = len(self._ids)
                columns = {"id": [found], "name": [self._writer.intern(name)]}
                self._writer.block(self._device, columns)
                self._ids[name] = found
            return self._ids[name]

    def moved(self, tensor: Any, number: int, device: Any) -> None:
        """Record that a described tensor and its new storage are on this device."""
        tensor._storage.record_nr = number
        self._moved.append((number, number, self.of(device)))

    def take(self) -> list[tuple[int, int, int]]:
        """(tensor, storage, device) of all that were moved since the last time."""
        return take_all(self._moved)
