"""What a node gets when it is made, beside what its own class adds."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from gradscope.runtime.core.graph.node import Node
from gradscope.runtime.core.state.frames import PARENT, TRACEBACK, outside, scripts_stack
from gradscope.runtime.core.state.thread import ThreadState


def prepare(node: Node, edges: Sequence[tuple[Any, int]], state: ThreadState) -> None:
    """Fill in the fields every node has, for nodes that no generated road makes."""
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
    """One more than the highest topological number among the nodes that edges lead to."""
    return 1 + max((node.topological_nr for node, _ in edges if node is not None), default=-1)


def finish(node: Node, state: ThreadState) -> None:
    """What a new node rarely needs: anomaly records, creation hooks, conjugation, a device."""
    if state.anomaly:
        remember(node, state)
    if any(dtype.kind == "c" for _, dtype in node.input_metadata):
        node.extra().conjugates = True
    if state.device is not None:
        node.extra().device = state.device
    if state.saved_hooks:
        node.extra()  # its hooks will run in the middle of its run, so that both are told in words
    for hook in list(state.node_creation_hooks):
        hook(node)


def remember(node: Node, state: ThreadState) -> None:
    """Keep the stack of the call that makes a node, and the node being run, if any."""
    metadata = node.extra().metadata
    metadata[TRACEBACK] = scripts_stack(outside(sys._getframe(1)))
    if state.node is not None:
        metadata[PARENT] = state.node
