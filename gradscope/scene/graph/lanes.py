"""The threads or devices of nodes, shown if there is more than one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from gradscope.analysis.graph.columns import GraphColumns
from gradscope.analysis.lookups import Ids
from gradscope.analysis.ranks.whose import RankOf
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, Device, Node, NodeBegin, Storage, Tensor, Thread
from gradscope.trace.trace import Table, Trace


class Lanes:
    """The numbered threads that ran the nodes of a picture or, with one thread, their devices."""

    def __init__(self, trace: Trace, ids: Ids, threads: Ids, devices: Ids) -> None:
        kinds: tuple[tuple[str, Ids, Table[Thread] | Table[Device]], ...] = (
            ("thread", threads, trace.table(Thread)),
            ("on", devices, trace.table(Device)),
        )
        # A thread works for one device, and is more reliable: tensors may have moved since.
        ranks = trace.once(RankOf)
        several = {what: _several(places, ranks, table) for what, places, table in kinds}
        what, places, table = next((each for each in kinds if several[each[0]]), kinds[0])
        known = [id for id in distinct(places).tolist() if table.has(id) and several[what]]
        self.titles = tuple(f"{what} {table.row(id).name or id}" for id in known)
        numbers = {id: number for number, id in enumerate(known)}
        self._of = {
            node: numbers[place]
            for node, place in zip(ids.tolist(), places.tolist(), strict=True)
            if place in numbers
        }

    def of(self, nodes: Iterable[int]) -> int:
        """The lane in which all these nodes ran; NONE if unknown or several."""
        found = {self._of.get(node, NONE) for node in nodes}
        return found.pop() if len(found) == 1 else NONE

    def column(self, nodes: Ids) -> Ids:
        """The lane of each node; NONE if unknown, or if all have the same."""
        return np.array([self._of.get(node, NONE) for node in nodes.tolist()], np.int64)

    def words(self, nodes: Iterable[int]) -> str:
        """As in "thread sim:0" and "in 2 places"; "" where there is only one."""
        found = {self._of[node] for node in nodes if node in self._of}
        if len(found) > 1:
            return f"in {len(found)} places"
        return self.titles[found.pop()] if found else ""


def lanes_of_nodes(trace: Trace, columns: GraphColumns, tasks: Iterable[int] | None) -> Lanes:
    """The lanes of nodes in these graph tasks, or in all of them."""
    return Lanes(trace, columns.id, _threads(trace, columns, tasks), _devices(trace, columns))


def _several(places: Ids, ranks: RankOf, table: Table[Thread] | Table[Device]) -> bool:
    """Whether there is more than one; for threads of a merged trace, in a rank."""
    known = distinct(places[places != NONE])
    if table.row_type is Thread:
        of_ranks = ranks.of(Thread.TABLE, known)
        return len(known) > len(distinct(of_ranks))
    return len(known) > 1


def _threads(trace: Trace, columns: GraphColumns, tasks: Iterable[int] | None) -> Ids:
    """The thread that ran each node last."""
    begins = trace.table(NodeBegin)
    chosen = np.isin(begins["node"], columns.id)
    if tasks is not None:
        chosen &= np.isin(begins["task"], sorted(tasks))
    found = np.full(len(columns.id), NONE, np.int64)
    found[np.searchsorted(columns.id, begins["node"][chosen])] = begins["thread"][chosen]
    return found


def _devices(trace: Trace, columns: GraphColumns) -> Ids:
    """The device of the first gradient that each node receives."""
    nodes = trace.table(Node)
    inputs = nodes.ragged("inputs").take(nodes.positions(columns.id)).tuples()
    return devices_of(trace, [each[0] if each else NONE for each in inputs])


def devices_of(trace: Trace, of: Sequence[int]) -> Ids:
    """The devices of these tensors; NONE where unknown.

    These are the devices of their storages, since a parameter may have been moved later.
    """
    first = np.array(of, np.int64)
    memory = _column_of(trace.table(Tensor), first, "storage")
    devices = _column_of(trace.table(Storage), memory, "device")
    return np.where(devices != NONE, devices, _column_of(trace.table(Tensor), first, "device"))


def _column_of(table: Table[Tensor] | Table[Storage], ids: Ids, column: str) -> Ids:
    """A column of these rows; NONE for rows that do not exist."""
    found = np.full(len(ids), NONE, np.int64)
    if len(table):
        positions = np.where(ids == NONE, NONE, table.positions(ids))
        found[positions != NONE] = table[column][positions[positions != NONE]]
    return found
