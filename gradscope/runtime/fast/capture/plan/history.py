"""The grad_fn of a tensor that a replayed step returns: its graph has run and is released.

A backward through it raises the error of released nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from gradscope.runtime.core.autograd.engine.accumulate_grad import AccumulateGrad
from gradscope.runtime.core.errors.engine import saved_values as errors
from gradscope.runtime.core.graph.node import Node, OpNode, new


class Replayed(Node):
    """Stands for a node of a recorded step that already ran in the replay."""

    __slots__ = ()

    def run_arrays(self, grads: Sequence[Any]) -> Sequence[Any]:
        raise errors.freed(self)

    run_tensors = run_arrays


@cache
def _named(name: str) -> type[Replayed]:
    return type(name, (Replayed,), {"__slots__": (), "__module__": "gradscope.runtime"})


def has_run(node: Any) -> bool:
    """Whether nothing below this node could run backward again."""
    seen, left = {node}, [node]
    while left:
        found = left.pop()
        if isinstance(found, AccumulateGrad) or not isinstance(found, OpNode):
            return False
        if found.releases and found._saved is None:
            continue
        for following, _ in found.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                left.append(following)
    return True


def replayed(node: Any) -> Replayed:
    """A stand-in for this node, and for all nodes below it."""
    order, seen = [node], {node}
    for found in order:
        for following, _ in found.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                order.append(following)
    known = {found: _like(found) for found in order}
    for found, made in known.items():
        made.next_functions = tuple(
            [(None if f is None else known[f], nr) for f, nr in found.next_functions]
        )
    return known[node]


def _like(node: Any) -> Replayed:
    made = new(_named(type(node).__name__))
    made.sequence_nr, made.topological_nr = node.sequence_nr, node.topological_nr
    made.input_metadata, made.record_nr = node.input_metadata, 0
    made._saved, made._extra = None, None
    return made
