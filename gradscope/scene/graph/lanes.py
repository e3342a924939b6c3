"""On which thread nodes ran, or for which device; said where there is more than one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from gradscope.analysis.graph.columns import GraphColumns
from gradscope.analysis.lookups import Ids
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, Device, Node, NodeBegin, Storage, Tensor, Thread
from gradscope.trace.trace import Table, Trace


class Lanes:
    """The threads that ran what a picture shows, or the devices of one thread's; numbered."""

    def __init__(self, trace: Trace, ids: Ids, threads: Ids, devices: Ids) -> None:
        kinds: tuple[tuple[str, Ids, Table[Thread] | Table[Device]], ...] = (
            ("thread", threads, trace.table(Thread)),
            ("on", devices, trace.table(Device)),
        )
        # A thread works for one device, and its name is surer: tensors are noted where they began.
        what, places, table = next((each for each in kinds if _several(each[1])), kinds[0])
        known = [id for id in distinct(places).tolist() if table.has(id) and _several(places)]
        self.titles = tuple(f"{what} {table.row(id).name or id}" for id in known)
        numbers = {id: number for number, id in enumerate(known)}
        self._of = {
            node: numbers[place]
            for node, place in zip(ids.tolist(), places.tolist(), strict=True)
            if place in numbers
        }

    def of(self, nodes: Iterable[int]) -> int:
        """The lane in which all of these nodes ran; NONE where that is not known, or several."""
        found = {self._of.get(node, NONE) for node in nodes}
        return found.pop() if len(found) == 1 else NONE

    def column(self, nodes: Ids) -> Ids:
        """The lane of each of these; NONE where none is known, or all are in the same."""
        return np.array([self._of.get(node, NONE) for node in nodes.tolist()], np.int64)

    def words(self, nodes: Iterable[int]) -> str:
        """As in "thread sim:0" and "in 2 places"; "" where there is only one."""
        found = {self._of[node] for node in nodes if node in self._of}
        if len(found) > 1:
            return f"in {len(found)} places"
        return self.titles[found.pop()] if found else ""


def lanes_of_nodes(trace: Trace, columns: GraphColumns, tasks: Iterable[int] | None) -> Lanes:
    """Where nodes ran in these graph tasks, or in all of them."""
    return Lanes(trace, columns.id, _threads(trace, columns, tasks), _devices(trace, columns))


def _several(places: Ids) -> bool:
    return len(distinct(places[places != NONE])) > 1


def _threads(trace: Trace, columns: GraphColumns, tasks: Iterable[int] | None) -> Ids:
    """By node, the thread that ran it last."""
    begins = trace.table(NodeBegin)
    chosen = np.isin(begins["node"], columns.id)
    if tasks is not None:
        chosen &= np.isin(begins["task"], sorted(tasks))
    found = np.full(len(columns.id), NONE, np.int64)
    found[np.searchsorted(columns.id, begins["node"][chosen])] = begins["thread"][chosen]
    return found


def _devices(trace: Trace, columns: GraphColumns) -> Ids:
    """By node, the device of the first gradient it takes."""
    nodes = trace.table(Node)
    inputs = nodes.ragged("inputs").take(nodes.positions(columns.id)).tuples()
    return devices_of(trace, [each[0] if each else NONE for each in inputs])


def devices_of(trace: Trace, of: Sequence[int]) -> Ids:
    """The devices of these tensors; NONE where it is not known.

    Of their memory, rather: a view of a parameter is noted like that, which may have been moved.
    """
    first = np.array(of, np.int64)
    memory = _column_of(trace.table(Tensor), first, "storage")
    devices = _column_of(trace.table(Storage), memory, "device")
    return np.where(devices != NONE, devices, _column_of(trace.table(Tensor), first, "device"))


def _column_of(table: Table[Tensor] | Table[Storage], ids: Ids, column: str) -> Ids:
    """Of these rows; NONE for those that are not there."""
    found = np.full(len(ids), NONE, np.int64)
    if len(table):
        positions = np.where(ids == NONE, NONE, table.positions(ids))
        found[positions != NONE] = table[column][positions[positions != NONE]]
    return found
