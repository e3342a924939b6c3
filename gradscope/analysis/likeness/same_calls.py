"""Matches the forward calls of two traces: by their nodes, and by line and name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gradscope.analysis.graph.forward.calls import ForwardCalls
from gradscope.analysis.identity.sites import site_of
from gradscope.analysis.likeness.aspects import SameNodes
from gradscope.analysis.lookups import Ids
from gradscope.analysis.program.modules import module_names
from gradscope.trace.schema import NONE
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class SameCalls:
    """By place of a call: the matching one in the other trace, or NONE."""

    in_one: Ids  # of calls of the one trace
    in_other: Ids


def same_calls(one: Trace, other: Trace, nodes: SameNodes) -> SameCalls:
    """Match calls that created matching nodes.

    Calls without a node match in order by name, line (its text, since lines move) and module.
    """
    first, second = one.once(ForwardCalls), other.once(ForwardCalls)
    made = {int(node): place for place, node in enumerate(first.node.tolist()) if node != NONE}
    same = dict(zip(nodes.other.tolist(), nodes.one.tolist(), strict=True))
    alone = dict(_alone(one))
    in_other = np.full(len(second), NONE)
    for place, node in enumerate(second.node.tolist()):
        if node != NONE:
            in_other[place] = made.get(same.get(node, NONE), NONE)
    for key, place in _alone(other):
        in_other[place] = alone.get(key, NONE)
    in_one = np.full(len(first), NONE)
    known = np.flatnonzero(in_other != NONE)
    in_one[in_other[known]] = known
    return SameCalls(in_one, in_other)


def _alone(trace: Trace) -> Iterator[tuple[tuple[object, ...], int]]:
    """The places of calls that created no node, each with its key."""
    calls, modules = trace.once(ForwardCalls), module_names(trace)
    seen: Counter[tuple[object, ...]] = Counter()
    columns = (calls.node.tolist(), calls.stack.tolist(), calls.module.tolist())
    for place, (node, stack, module) in enumerate(zip(*columns, strict=True)):
        if node == NONE:
            key = calls.names[place], site_of(trace, stack).text, modules.get(module, "")
            seen[key] += 1
            yield (*key, seen[key]), place
