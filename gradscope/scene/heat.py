"""Numbers as warmth: which nodes took long, which gradients are large."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import log10

import numpy as np

from gradscope.analysis.graph import Graph
from gradscope.errors import EmptyTraceError
from gradscope.scene.choices import ColorBy
from gradscope.scene.picture import Scale
from gradscope.scene.words import duration, number
from gradscope.trace.run import Trace
from gradscope.trace.schema import NONE, Place, Value


@dataclass(frozen=True, slots=True)
class Heat:
    """The warmth of nodes, from 0 to 1, each with its number in words."""

    scale: Scale | None = None
    of: Mapping[int, float] = field(default_factory=dict)
    words: Mapping[int, str] = field(default_factory=dict)


def heat_of(trace: Trace, color_by: ColorBy, graph: Graph) -> Heat:
    """What the colours of a picture say. Raises EmptyTraceError when the trace cannot tell."""
    if color_by is ColorBy.TIME:
        return _time(graph)
    if color_by is ColorBy.GRAD:
        return _grad(trace, graph)
    return Heat()


def _time(graph: Graph) -> Heat:
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
    most = max(spent.values())
    return Heat(
        scale=Scale("time of its own", duration(0), duration(most)),
        of={node: ns / most if most else 0.0 for node, ns in spent.items()},
        words={node: duration(ns) for node, ns in spent.items()},
    )


def _grad(trace: Trace, graph: Graph) -> Heat:
    """The size of the gradients that arrive, on a logarithmic scale."""
    sizes = _sizes(trace, {node.id for node in graph.nodes})
    if not sizes:
        raise EmptyTraceError(
            "this trace holds no statistics of these nodes' gradients; record it with "
            "--level values"
        )
    logs = {node: log10(size) for node, size in sizes.items() if size > 0}
    low, high = min(logs.values(), default=0.0), max(logs.values(), default=0.0)
    span = high - low
    return Heat(
        scale=Scale("size of the gradient (rms, logarithmic)", number(10**low), number(10**high)),
        of={node: (logs[node] - low) / span if span and node in logs else 0.0 for node in sizes},
        words={node: f"grad rms {number(size)}" for node, size in sizes.items()},
    )


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
