"""Traces of chains of nodes, each with its line and the time that it took."""

from __future__ import annotations

from gradscope.trace.schema import Edge, Frame, GraphTask, Node, NodeBegin, NodeEnd, Row, Stack
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
