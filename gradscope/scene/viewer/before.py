"""The graph of the earlier trace in a page with two traces: drawn next to the later one."""

from __future__ import annotations

import numpy as np

from gradscope.scene.viewer.groups import Groups
from gradscope.scene.viewer.nodes import PageNodes, edge_table, node_table
from gradscope.scene.viewer.reports import source_tables
from gradscope.scene.viewer.text_columns import Column, Table, Texts
from gradscope.scene.viewer.times import backward_table, run_table, times_of
from gradscope.trace.schema import NONE

OF_EVENTS = frozenset(("pushed", "begun", "ended", "first", "last"))
"""Columns that refer to events. Those of the earlier trace are not in the page."""


def before_tables(scope: PageNodes, texts: Texts) -> dict[str, Table]:
    """Nodes, edges, groups and times of the earlier trace, without its events."""
    groups, of_node = Groups(scope.trace, scope.columns).table(texts)
    times = times_of(scope)
    tables = {
        "nodes": node_table(scope, of_node, texts),
        "edges": edge_table(scope, texts),
        "groups": groups,
        "backwards": _without_events(backward_table(times, texts)),
        "runs": _without_events(run_table(times, events=False)),
        **source_tables(scope, texts),
    }
    return {f"before_{name}": table for name, table in tables.items()}


def _without_events(table: Table) -> Table:
    def kept(name: str, column: Column) -> Column:
        return np.full(len(column), NONE, np.int64) if name in OF_EVENTS else column

    return {
        name: kept(name, column) if isinstance(column, np.ndarray) else column
        for name, column in table.items()
    }
