"""Rules about rows: the rows they refer to exist, and they are consistent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gradscope.trace.ragged import Ragged
from gradscope.trace.schema.declare import EVENTS, NONE, TABLES, columns
from gradscope.trace.schema.tables import (
    Edge,
    GraphTask,
    Module,
    Node,
    Op,
    Span,
    Stack,
    Step,
    Storage,
)
from gradscope.trace.shortcomings import dropped_rows
from gradscope.trace.spec.checked_trace import groups, lookup, running
from gradscope.trace.spec.rule import RuleFault, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gradscope.trace.ragged import Array, Data
    from gradscope.trace.schema.declare import Row
    from gradscope.trace.spec.checked_trace import CheckedTrace
    from gradscope.trace.table import Table


@rule
def ids_differ(facts: CheckedTrace) -> Iterator[RuleFault]:
    """No two rows of a table have the same id, and none is negative."""
    for table in facts.trace.tables.values():
        if table.row_type is None or "id" not in table.data:
            continue
        ids = table.array("id")
        values, counts = np.unique(ids, return_counts=True)
        for id in values[(counts > 1) | (values < 0)].tolist():
            yield RuleFault(
                f"{table.name} {id} {'is negative' if id < 0 else 'exists twice'}", table.name, id
            )


@rule
def references_name_rows(facts: CheckedTrace) -> Iterator[RuleFault]:
    """An id refers to an existing row, or none; rows cut off or dropped may be missing."""
    dropped = dropped_rows(facts.trace)
    for table in facts.trace.tables.values():
        for column in columns(table.row_type) if table.row_type else ():
            if column.ref is None or column.ref in dropped:
                continue
            data = table[column.name]
            ids = data.values if isinstance(data, Ragged) else data
            for place in np.flatnonzero(_missing(facts, facts.trace.tables[column.ref], ids)):
                row = int(data.owners[place]) if isinstance(data, Ragged) else int(place)
                message = (
                    f"{column.name} is {ids[place]}, but there is no {column.ref} with that id"
                )
                yield _fault(table, row, message)


def _missing(facts: CheckedTrace, table: Table[Row], ids: Array) -> Array:
    missing: Array = (ids != NONE) & (table.positions(ids) == NONE)
    if facts.trace.truncated:  # rows that were not written yet
        known = table.array("id")
        missing &= ids <= (known.max() if len(known) else NONE)
    return missing


def _fault(table: Table[Row], row: int, message: str) -> RuleFault:
    id, seq = (int(table[n][row]) if n in table.data else NONE for n in ("id", "seq"))
    return RuleFault(f"row {row} of {table.name}: {message}", table.name, id, seq)


PARENTS = (Stack, Module, Span, GraphTask)


@rule
def parents_make_no_circle(facts: CheckedTrace) -> Iterator[RuleFault]:
    """Stacks, modules, spans and graph tasks have parents, and none is its own ancestor."""
    for kind in PARENTS:
        table = facts.trace.table(kind)
        ids = table.array("id")
        above = table.positions(table.array("parent"))
        for _ in range(
            len(ids).bit_length()
        ):  # after this many doublings, every path has left the tree
            above = np.where(above == NONE, NONE, above[above])
        for place in np.flatnonzero(above != NONE):
            yield RuleFault(
                f"{table.name} {ids[place]} is its own ancestor", table.name, int(ids[place])
            )


LIVES = (
    (Step, "begin", "end"),
    (Span, "begin", "end"),
    (Op, "begin", "end"),
    (GraphTask, "begin", "end"),
    (Storage, "born", "freed"),
)


@rule
def ends_follow_beginnings(facts: CheckedTrace) -> Iterator[RuleFault]:
    """Nothing ends, is freed or is released before it began."""
    for kind, begin, end in (*LIVES, (TABLES["saved"], "t", "released")):
        table = facts.trace.table(kind)
        early = (table.array(end) != NONE) & (table.array(end) < table.array(begin))
        for row in np.flatnonzero(early):
            yield _fault(table, int(row), f"{end} is earlier than {begin}")


@rule
def nodes_exist_before_they_are_used(facts: CheckedTrace) -> Iterator[RuleFault]:
    """A node is created before anything happens to it."""
    nodes = facts.trace.table(Node)
    for kind in EVENTS.values():
        events = facts.of(kind)
        if "node" not in events.data:
            continue
        made = lookup(nodes.array("id"), nodes.array("t"), events["node"], missing=-(2**62))
        for place in np.flatnonzero(events["t"] < made):
            message = f"{facts.node(events['node'][place])} is used before it was created"
            yield RuleFault(message, events.table, seq=int(events["seq"][place]))


@rule
def edges_fit_their_nodes(facts: CheckedTrace) -> Iterator[RuleFault]:
    """An output has one edge, to an existing input of a node with a lower topological_nr."""
    edges, nodes = facts.trace.table(Edge), facts.trace.table(Node)
    count = np.ones(len(edges), np.int64)
    again = running(groups([edges.array("node"), edges.array("index")]), count) > 1
    for place in np.flatnonzero(again):
        message = (
            f"output {edges['index'][place]} of {facts.node(edges['node'][place])} has two edges"
        )
        yield RuleFault(message, edges.name, id=int(edges["node"][place]))
    inputs = _of_nodes(nodes, nodes.ragged("inputs").lengths, edges.array("next"))
    for place in np.flatnonzero((inputs > 0) & (edges.array("input_nr") >= inputs)):
        message = f"{facts.node(edges['next'][place])} has no input {edges['input_nr'][place]}"
        yield RuleFault(message, edges.name, id=int(edges["node"][place]))
    height = nodes.array("topological_nr")
    above = _of_nodes(nodes, height, edges.array("node"))
    below = _of_nodes(nodes, height, edges.array("next"))
    for place in np.flatnonzero((above > 0) & (below != NONE) & (above <= below)):
        message = (
            f"topological_nr of {facts.node(edges['node'][place])} is not above that of its next"
        )
        yield RuleFault(message, edges.name, id=int(edges["node"][place]))


def _of_nodes(nodes: Table[Node], values: Array, ids: Data) -> Array:
    return lookup(nodes.array("id"), values, np.asarray(ids))


@rule
def sequence_numbers_differ(facts: CheckedTrace) -> Iterator[RuleFault]:
    """Two nodes created by one thread have different sequence numbers, unless they have none."""
    nodes = facts.trace.table(Node)
    number, thread = nodes.array("sequence_nr"), nodes.array("thread")
    numbered = np.flatnonzero(number > 0)
    group = groups([thread[numbered], number[numbered]])
    again = running(group, np.ones(len(numbered), np.int64)) > 1
    for row in numbered[again].tolist():
        yield _fault(nodes, row, f"another node of its thread also has sequence_nr {number[row]}")


@rule
def ops_and_nodes_name_each_other(facts: CheckedTrace) -> Iterator[RuleFault]:
    """The node a call created refers to that call."""
    ops, nodes = facts.trace.table(Op), facts.trace.table(Node)
    back = lookup(nodes.array("id"), nodes.array("op"), ops.array("node"))
    for row in np.flatnonzero((back != NONE) & (back != ops.array("id"))).tolist():
        message = f"it created {facts.node(ops['node'][row])}, which refers to op {back[row]}"
        yield _fault(ops, row, message)
