"""Where a finding is: the nodes it refers to, their steps, and the function of its line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from gradscope.analysis.findings import Evidence, Finding
from gradscope.analysis.identity.sites import Site
from gradscope.analysis.identity.steps import step_numbers, steps
from gradscope.trace.schema import NONE, Frame, GraphTask, Node, Op, Saved, Step, Tensor
from gradscope.trace.schema.declare import TABLES, Event, columns
from gradscope.trace.trace import Trace

LOCALS = "<locals>."


def located(trace: Trace, finding: Finding) -> Finding:
    """The finding with the steps of its evidence, and the function of its line."""
    return replace(
        finding,
        steps=_steps_of(trace, finding.evidence),
        function=trace.once(_Functions).of(finding.site),
    )


# Rows ------------------------------------------------------------------------------------------


def rows_of(trace: Trace, evidence: Evidence, table: str) -> list[int]:
    """The ids of the rows of a table that a row of evidence is, or refers to."""
    if evidence.table == table:
        return [evidence.id]
    kind = TABLES.get(evidence.table)
    if kind is None:
        return []
    if issubclass(kind, Event):
        return _of_event(trace, evidence.id, table)
    if not trace.table(kind).has(evidence.id):
        return []
    row = trace.table(kind).row(evidence.id)
    found: list[int] = []
    for column in columns(kind):
        if column.ref == table:
            value = getattr(row, column.name)
            found += value if column.many else [value]
    return [id for id in found if id != NONE]


def _of_event(trace: Trace, seq: int, table: str) -> list[int]:
    """The node or the graph task of an event."""
    known = {Node.TABLE: "node", GraphTask.TABLE: "task"}
    order = trace.order().seq
    place = int(np.searchsorted(order, seq))
    if table not in known or place == len(order) or order[place] != seq:
        return []
    id = int(trace.event_column(known[table])[place])
    return [] if id == NONE else [id]


def nodes_of(trace: Trace, evidence: Iterable[Evidence]) -> Iterator[int]:
    """The nodes that evidence refers to, the most direct first; then those of its tensors."""
    rows = [*evidence]
    nodes = trace.table(Node)
    yield from (id for each in rows for id in rows_of(trace, each, Node.TABLE) if nodes.has(id))
    tensors = [id for each in rows for id in rows_of(trace, each, Tensor.TABLE)]
    if not tensors:
        return
    inputs, saved = nodes.ragged("inputs"), trace.table(Saved)
    given = inputs.owners[np.isin(inputs.values, tensors)]
    yield from nodes["id"][given].tolist()
    yield from saved["node"][np.isin(saved["tensor"], tensors)].tolist()


# Steps -----------------------------------------------------------------------------------------


def _steps_of(trace: Trace, evidence: Iterable[Evidence]) -> tuple[int, ...]:
    """The numbers of the steps in which the evidence was recorded, of a trace with several."""
    if len(trace.once(steps)) < 2:
        return ()
    numbers = trace.once(step_numbers)
    found = (numbers.get(id) for each in evidence for id in _step_ids(trace, each))
    return tuple(sorted({number for number in found if number is not None}))


def _step_ids(trace: Trace, evidence: Evidence) -> list[int]:
    """The step of a row, or of the backward, operation or node that it refers to."""
    found = rows_of(trace, evidence, Step.TABLE)
    for kind in (GraphTask, Op, Node):
        if not found:
            table = trace.table(kind)
            ids = [id for id in rows_of(trace, evidence, kind.TABLE) if table.has(id)]
            found = [step for id in ids if (step := int(table["step"][table.index(id)])) != NONE]
    return found


# The function ----------------------------------------------------------------------------------


class _Functions:
    """The functions of the recorded lines, by file and line."""

    def __init__(self, trace: Trace) -> None:
        frames = trace.table(Frame)
        lines = zip(frames.texts("file"), frames["line"].tolist(), strict=True)
        self._names: dict[tuple[str, int], set[str]] = {}
        for line, function in zip(lines, frames.texts("function"), strict=True):
            self._names.setdefault(line, set()).add(_plain(function))

    def of(self, site: Site) -> str:
        """As in "Head.forward"; "" for a line outside of functions, or of several."""
        names = self._names.get((site.file, site.line), set()) - {""}
        return names.pop() if len(names) == 1 else ""


def _plain(function: str) -> str:
    """The name without the functions around it; "" for a module, a lambda or a comprehension."""
    name = function.rpartition(LOCALS)[2]
    return "" if "<" in name else name
