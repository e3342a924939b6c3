"""Traces of chains of nodes, each with its line and the time that it took."""

from __future__ import annotations

from gradscope.trace.schema import (
    Edge,
    Frame,
    GraphTask,
    Node,
    NodeBegin,
    NodeEnd,
    Row,
    Stack,
    Step,
)
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of


def chain(**took: int) -> Trace:
    """A chain of these operations in the order of the forward pass, which took so many ns."""
    rows: list[Row] = []
    for place, name in enumerate(took):
        text = f"x = x.{name.lower()}()"
        rows += [Frame(place, "net.py", place + 1, "", text), Stack(place, place)]
        rows.append(Node(place, f"{name}Backward0", place, stack=place, t=place))
        rows += [Edge(place, 0, place - 1)] if place else []
    clock = len(took)
    rows.append(GraphTask(0, roots=(clock - 1,), begin=clock, end=clock + sum(took.values())))
    for place, ns in reversed(list(enumerate(took.values()))):
        rows += [NodeBegin(task=0, node=place, t=clock), NodeEnd(task=0, node=place, t=clock + ns)]
        clock += ns
    return trace_of(*rows)


def chain_in_steps(**took: tuple[int, ...]) -> Trace:
    """The same chain in each step; by operation how many ns it took in the steps."""
    rows: list[Row] = []
    for place, name in enumerate(took):
        text = f"x = x.{name.lower()}()"
        rows += [Frame(place, "net.py", place + 1, "", text), Stack(place, place)]
    clock, many = 0, len(took)
    for step, times in enumerate(zip(*took.values(), strict=True)):
        first = step * many
        rows.append(Step(step, step, clock))
        for place, name in enumerate(took):
            node = first + place
            clock += 1
            rows.append(Node(node, f"{name}Backward0", node, stack=place, step=step, t=clock))
            rows += [Edge(node, 0, node - 1)] if place else []
        begin, end = clock, clock + sum(times)
        rows.append(GraphTask(step, roots=(first + many - 1,), step=step, begin=begin, end=end))
        for place, ns in reversed(list(enumerate(times))):
            node = first + place
            rows.append(NodeBegin(task=step, node=node, t=clock))
            clock += ns
            rows.append(NodeEnd(task=step, node=node, t=clock))
    return trace_of(*rows)
