"""What the rules look for in a trace, by the names users know."""

from __future__ import annotations

from typing import Any

from gradscope.trace import schema
from gradscope.trace.schema.events import Accumulation, HookKind
from gradscope.trace.trace import Trace


def names_in(trace: Trace) -> dict[int, str]:
    """What each node is called."""
    return {node.id: node.name for node in trace.rows(schema.Node)}


def ran(trace: Trace, task: int | None = None) -> list[str]:
    """The nodes that ran, in order; of one graph task, or of all."""
    known = names_in(trace)
    return [
        known[event.node]
        for event in trace.events(schema.NodeBegin)
        if task is None or event.task == task
    ]


def tasks(trace: Trace) -> list[int]:
    """The graph tasks, in the order in which they began."""
    return [event.task for event in trace.events(schema.TaskBegin)]


def arrivals(trace: Trace) -> list[str]:
    """What was done with each gradient that arrived at a leaf."""
    return [Accumulation(event.how).name for event in trace.events(schema.Accumulate)]


def hooked(trace: Trace) -> list[tuple[str, bool]]:
    """The hooks that returned, in order: their kind, and whether they replaced the gradient."""
    return [(HookKind(e.hook).name, e.replaced) for e in trace.events(schema.HookEnd)]


def saved_by(trace: Trace, name: str) -> list[Any]:
    """What the nodes of this name kept."""
    known = names_in(trace)
    return [row for row in trace.rows(schema.Saved) if known[row.node] == name]


def edges(trace: Trace, node: int) -> list[tuple[str | None, int]]:
    """Where the gradients of a node go, as `next_functions` shows it."""
    known = names_in(trace)
    rows = sorted((e for e in trace.rows(schema.Edge) if e.node == node), key=lambda e: e.index)
    return [(known[e.next] if e.next >= 0 else None, max(e.input_nr, 0)) for e in rows]


def node_of(trace: Trace, name: str) -> int:
    """The first node of this name."""
    return next(node for node, found in names_in(trace).items() if found == name)


def errors(trace: Trace) -> list[tuple[str, str, str]]:
    """Where each error was raised, its type, and its first line."""
    known = names_in(trace)
    return [
        (known.get(event.node, ""), event.type, event.message.partition("\n")[0])
        for event in trace.events(schema.Error)
    ]
