"""The moment that a row of a trace belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gradscope.analysis.state.moments import Moments
from gradscope.trace.schema import NONE, Node, NodeBegin, Op, Tensor, Value
from gradscope.trace.schema.declare import EVENTS

if TYPE_CHECKING:
    from gradscope.analysis.findings import Finding
    from gradscope.trace.trace import Trace


ANY_EVENT = "event"


def moment_of(trace: Trace, table: str, id: int) -> int:
    """The moment that a row is about; NONE if not recorded."""
    moments = trace.once(Moments)
    if table == ANY_EVENT or table in EVENTS:
        seq = trace.order().seq
        return moments.of_seq(id) if id in seq else NONE
    rows = trace.tables.get(table)
    if rows is None or "id" not in rows.data or not rows.has(id):
        return NONE
    at = rows.index(id)
    if rows.row_type in moments.kinds:
        return int(moments.of(rows.row_type)[at])
    if table == Node.TABLE:
        ran = np.flatnonzero(np.asarray(trace.table(NodeBegin)["node"]) == id)
        return int(moments.of(NodeBegin)[ran[0]]) if len(ran) else _at_time(moments, rows["t"][at])
    if table == Value.TABLE:
        return _of_value(trace, at)
    if table == Tensor.TABLE:
        return moment_of(trace, Op.TABLE, int(rows["op"][at]))
    column = next((name for name in ("t", "begin") if name in rows.data), None)
    return NONE if column is None else _at_time(moments, rows[column][at])


def moment_of_finding(trace: Trace, finding: Finding) -> int:
    """The moment of a finding: the first of its evidence or, for an error, the call at fault."""
    rows = finding.evidence
    if rows and rows[0].table == ANY_EVENT:
        rows = tuple(sorted(rows, key=lambda row: row.table != Op.TABLE))
    shown = (moment_of(trace, row.table, row.id) for row in rows)
    return next((moment for moment in shown if moment != NONE), NONE)


def _of_value(trace: Trace, at: int) -> int:
    moments, values = trace.once(Moments), trace.table(Value)
    seq, op = int(values["seq"][at]), int(values["op"][at])
    if seq != NONE and seq in trace.order().seq:
        return moments.of_seq(seq)
    if trace.table(Op).has(op):
        return moment_of(trace, Op.TABLE, op)
    return _at_time(moments, values["t"][at])


def _at_time(moments: Moments, t: int) -> int:
    """The last moment that is not after this time."""
    return int(np.searchsorted(moments.t, t, side="right")) - 1
