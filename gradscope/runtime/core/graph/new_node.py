"""Fields of a new node other than those of its own class."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from gradscope.runtime.core.graph.node import Node
from gradscope.runtime.core.state.frames import PARENT, TRACEBACK, outside, scripts_stack
from gradscope.runtime.core.state.thread import ThreadState


def prepare(node: Node, edges: Sequence[tuple[Any, int]], state: ThreadState) -> None:
    """Fill in the common fields of a node that was not made by generated code."""
    node.next_functions = tuple(edges)
    node.sequence_nr = next(state.sequence)
    node.topological_nr = above(edges)
    node._saved = ()
    node._extra = None
    node.record_nr = 0
    node.input_metadata = ()
    if state.special:
        finish(node, state)


def above(edges: Sequence[tuple[Any, int]]) -> int:
    """One more than the highest topological number of the nodes that edges lead to."""
    return 1 + max((node.topological_nr for node, _ in edges if node is not None), default=-1)


def finish(node: Node, state: ThreadState) -> None:
    """Rare steps for a new node: anomaly records, creation hooks, conjugation, a device."""
    if state.anomaly:
        remember(node, state)
    if any(dtype.kind == "c" for _, dtype in node.input_metadata):
        node.extra().conjugates = True
    if state.device is not None:
        node.extra().device = state.device
    if state.saved_hooks:
        node.extra()  # its hooks run in the middle of its run, so both are reported by methods
    for hook in list(state.node_creation_hooks):
        hook(node)


def remember(node: Node, state: ThreadState) -> None:
    """Store the stack of the call that creates a node, and the running node, if any."""
    metadata = node.extra().metadata
    metadata[TRACEBACK] = scripts_stack(outside(sys._getframe(1)))
    if state.node is not None:
        metadata[PARENT] = state.node
