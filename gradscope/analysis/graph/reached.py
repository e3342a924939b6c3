"""The parameters of called modules, and which of them a backward reached."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradscope.analysis.identity.leaves import leaf_of
from gradscope.analysis.identity.sharding import Sharding
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, Accumulate, Capture, Module, Node, Tensor
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class ParametersReached:
    """Parameters that require a gradient, by name, and those that no backward reached."""

    all: tuple[str, ...]
    unreached: tuple[str, ...]


def parameters(trace: Trace) -> ParametersReached:
    """The parameters of all called modules and of those inside them."""
    tensors = trace.table(Tensor)
    owned = distinct(trace.table(Module).ragged("parameters").values).tolist()
    rows = [tensors.row(id) for id in owned if tensors.has(id)]
    wanted = [row for row in rows if row.requires_grad]
    reached = reached_leaves(trace)
    return ParametersReached(
        all=tuple(row.name or f"tensor {row.id}" for row in wanted),
        unreached=tuple(row.name or f"tensor {row.id}" for row in wanted if row.id not in reached),
    )


def reached_leaves(trace: Trace) -> set[int]:
    """Leaves in whose `.grad` a gradient arrived, or whose gradient `autograd.grad` returned.

    A parameter counts if FSDP gathered its values into such a leaf.
    """
    found = set(trace.table(Accumulate)["tensor"].tolist())
    nodes = trace.table(Node)
    captured = nodes.positions(distinct(trace.table(Capture)["node"]))
    for node in nodes.take(captured[captured >= 0].astype(np.int64)):
        leaf = leaf_of(trace, node)
        if leaf is not None and leaf.tensor != NONE:
            found.add(leaf.tensor)
    return trace.once(Sharding).with_parameters(found)
