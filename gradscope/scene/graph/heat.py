"""Values shown as colours: the times of boxes, the sizes of gradients."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log10
from typing import TypeVar

import numpy as np

from gradscope.analysis.graph.columns import GraphColumns
from gradscope.analysis.lookups import Ids
from gradscope.errors import EmptyTraceError
from gradscope.scene.choices import ColorBy
from gradscope.scene.graph.picture import Scale
from gradscope.scene.readable import duration, number
from gradscope.trace.schema import NodeBegin, Place, Value
from gradscope.trace.trace import Trace

N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True)
class Heat:
    """The colour values of boxes, from 0 to 1, with texts where boxes do not show the value."""

    scale: Scale | None = None
    of: Mapping[str, float] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)


def heat_of(
    trace: Trace, color_by: ColorBy, graph: GraphColumns, contents: Mapping[str, Sequence[int]]
) -> Heat:
    """The colour values of boxes. Raises EmptyTraceError if the trace lacks the values.

    A box of several nodes has the sum of their times, or the largest of their gradients.
    """
    if color_by is ColorBy.TIME:
        return _time(trace, graph, contents)
    if color_by is ColorBy.GRAD:
        return _grad(trace, graph, contents)
    return Heat()


def _time(trace: Trace, graph: GraphColumns, contents: Mapping[str, Sequence[int]]) -> Heat:
    ran = np.isin(graph.id, trace.table(NodeBegin)["node"])
    spent = dict(zip(graph.id[ran].tolist(), graph.own_ns[ran].tolist(), strict=True))
    if not spent:
        raise EmptyTraceError(
            "no times of the nodes in this graph were recorded: its backward did not run, or was "
            "recorded at level graph; record it with --level engine"
        )
    return heat_of_times(spent, contents)


def heat_of_times(spent: Mapping[int, int], contents: Mapping[str, Sequence[int]]) -> Heat:
    """The colour values of boxes from the times of their contents."""
    times = {box: sum(known) for box, known in _known(spent, contents)}
    most = max(times.values(), default=0)
    return Heat(
        scale=Scale("own time", duration(0), duration(most)),
        of={box: ns / most if most else 0.0 for box, ns in times.items()},
    )


def _grad(trace: Trace, graph: GraphColumns, contents: Mapping[str, Sequence[int]]) -> Heat:
    """The size of the gradients that arrive, on a logarithmic scale."""
    arrived = _sizes(trace, graph.id)
    if not arrived:
        raise EmptyTraceError(
            "this trace holds no statistics of these nodes' gradients; record it with "
            "--level values"
        )
    sizes = {box: max(known) for box, known in _known(arrived, contents)}
    logs = {box: log10(size) for box, size in sizes.items() if size > 0}
    low, high = min(logs.values(), default=0.0), max(logs.values(), default=0.0)
    span = high - low
    return Heat(
        scale=Scale("size of the gradient (rms, logarithmic)", number(10**low), number(10**high)),
        of={box: (logs[box] - low) / span if span and box in logs else 0.0 for box in sizes},
        words={
            box: f"grad rms {'up to ' if len(contents[box]) > 1 else ''}{number(size)}"
            for box, size in sizes.items()
        },
    )


def _known(
    numbers: Mapping[int, N], contents: Mapping[str, Sequence[int]]
) -> Iterable[tuple[str, list[N]]]:
    """The values of the nodes of each box; boxes without any are left out."""
    for box, nodes in contents.items():
        known = [numbers[node] for node in nodes if node in numbers]
        if known:
            yield box, known


def _sizes(trace: Trace, nodes: Ids) -> dict[int, float]:
    """For each node, the largest rms of the gradients it receives."""
    values = trace.table(Value)
    arriving = values["place"] == Place.NODE_INPUT
    arriving &= np.isin(values["node"], nodes)
    found: dict[int, float] = defaultdict(float)
    columns = values["node"][arriving].tolist(), values["rms"][arriving].tolist()
    for node, rms in zip(*columns, strict=True):
        found[node] = max(found[node], rms) if np.isfinite(rms) else found[node]
    return dict(found)
