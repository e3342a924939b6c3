"""What each module of the model did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gradscope.analysis.timing.durations import backward_ns_of_modules
from gradscope.trace.run import Table, Trace
from gradscope.trace.schema import Module, Node, Op

DEEPEST = 24
"""Modules further inside than this are taken for their parents."""


@dataclass(frozen=True, slots=True)
class ModuleFacts:
    """One module; counts are its own, without its children's."""

    id: int
    path: str
    type: str
    parent: int
    parameters: int
    ops: int
    nodes: int
    backward_ns: int


def modules(trace: Trace) -> tuple[ModuleFacts, ...]:
    """All modules, in the order of the trace."""
    times = backward_ns_of_modules(trace)
    ops, nodes = _counts(trace.table(Op)), _counts(trace.table(Node))
    return tuple(
        ModuleFacts(
            id=module.id,
            path=module.path,
            type=module.type,
            parent=module.parent,
            parameters=len(module.parameters),
            ops=ops.get(module.id, 0),
            nodes=nodes.get(module.id, 0),
            backward_ns=times.get(module.id, 0),
        )
        for module in trace.rows(Module)
    )


def _counts(table: Table[Op] | Table[Node]) -> dict[int, int]:
    found, counts = np.unique(table["module"], return_counts=True)
    return dict(zip(found.tolist(), counts.tolist(), strict=True))


def parts_of(path: str) -> Iterator[str]:
    """For "a.b.c": "a", "a.b", "a.b.c"."""
    names = path.split(".", DEEPEST)[:DEEPEST] if path else []
    for length in range(1, len(names) + 1):
        yield ".".join(names[:length])
