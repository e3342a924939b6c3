"""Numbers as warmth: which boxes took long, which gradients are large."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log10
from typing import TypeVar

import numpy as np

from gradscope.analysis.graph.graph import Graph
from gradscope.errors import EmptyTraceError
from gradscope.scene.choices import ColorBy
from gradscope.scene.graph.picture import Scale
from gradscope.scene.readable import duration, number
from gradscope.trace.schema import NONE, Place, Value
from gradscope.trace.trace import Trace

N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True)
class Heat:
    """The warmth of boxes, from 0 to 1, with the number in words where nothing else says it."""

    scale: Scale | None = None
    of: Mapping[str, float] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)


def heat_of(
    trace: Trace, color_by: ColorBy, graph: Graph, contents: Mapping[str, Sequence[int]]
) -> Heat:
    """What the colours of boxes say. Raises EmptyTraceError when the trace cannot tell.

    A box that stands for several nodes is as warm as their times together, or as the largest of
    their gradients.
    """
    if color_by is ColorBy.TIME:
        return _time(graph, contents)
    if color_by is ColorBy.GRAD:
        return _grad(trace, graph, contents)
    return Heat()


def _time(graph: Graph, contents: Mapping[str, Sequence[int]]) -> Heat:
    spent = {
        node.id: sum(run.self_ns for run in node.runs if run.self_ns != NONE)
        for node in graph.nodes
        if node.runs
    }
    if not spent:
        raise EmptyTraceError(
            "no node of this graph was timed: its backward was not run, or was recorded at level "
            "graph; record it with --level engine"
        )
    times = {box: sum(known) for box, known in _known(spent, contents)}
    most = max(times.values(), default=0)
    return Heat(
        scale=Scale("time of its own", duration(0), duration(most)),
        of={box: ns / most if most else 0.0 for box, ns in times.items()},
    )


def _grad(trace: Trace, graph: Graph, contents: Mapping[str, Sequence[int]]) -> Heat:
    """The size of the gradients that arrive, on a logarithmic scale."""
    arrived = _sizes(trace, {node.id for node in graph.nodes})
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
    """By box, the numbers of its nodes; boxes without one are left out."""
    for box, nodes in contents.items():
        known = [numbers[node] for node in nodes if node in numbers]
        if known:
            yield box, known


def _sizes(trace: Trace, nodes: set[int]) -> dict[int, float]:
    """For each node, the largest rms among the gradients it takes."""
    values = trace.table(Value)
    arriving = values["place"] == Place.NODE_INPUT
    arriving &= np.isin(values["node"], sorted(nodes))
    found: dict[int, float] = defaultdict(float)
    columns = values["node"][arriving].tolist(), values["rms"][arriving].tolist()
    for node, rms in zip(*columns, strict=True):
        found[node] = max(found[node], rms) if np.isfinite(rms) else found[node]
    return dict(found)
