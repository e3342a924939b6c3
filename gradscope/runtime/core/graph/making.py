"""What a node gets when it is made, beside what its own class adds."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import Any

from gradscope.runtime.core.graph.node import Node
from gradscope.runtime.core.state.thread import ThreadState

TRACEBACK, PARENT = "traceback_", "parent_"
"""Where anomaly mode writes into a node's metadata, under PyTorch's names."""

RUNS_SCRIPTS = "gradscope.record.script.run_script"
"""The module below which no frame is the script's."""


def prepare(node: Node, edges: Sequence[tuple[Any, int]], state: ThreadState) -> None:
    """Fill in the fields every node has, for nodes that no generated road makes."""
    node.next_functions = tuple(edges)
    node.sequence_nr = state.next_sequence_nr()
    node.topological_nr = above(edges)
    node._saved = ()
    node._extra = None
    node.seen = 0
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


def scripts_stack(innermost: FrameType | None) -> list[str]:
    """The calls that led to this frame, without those that ran the script for a recording."""
    frames = []
    for frame, line in traceback.walk_stack(innermost):
        if frame.f_globals.get("__name__") == RUNS_SCRIPTS:
            break
        frames.append((frame, line))
    return traceback.StackSummary.extract(reversed(frames)).format()


def outside(frame: FrameType | None) -> FrameType | None:
    """The nearest frame that is not the runtime's own."""
    while frame is not None and is_ours(frame):
        frame = frame.f_back
    return frame


def is_ours(frame: FrameType) -> bool:
    module = frame.f_globals.get("__name__", "")
    road = frame.f_code.co_filename.startswith("<road ")
    return road or str(module).startswith(("gradscope.runtime", "gradscope.standins"))
