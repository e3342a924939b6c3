"""Queries about the running backward: its number, its node, and what it will run."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Any

from gradscope.runtime.core.graph.node import Node
from gradscope.runtime.core.state.thread import local


def current_graph_task_id() -> int:
    """The number of the running backward; -1 if none runs."""
    task = local.state.task
    return -1 if task is None else int(task.number)


def current_autograd_node() -> Any:
    """The running node, or None."""
    return local.state.node


def keeps_graph() -> bool:
    """Whether the running backward retains the graph; True if none runs."""
    task = local.state.task
    return True if task is None else bool(task.keep_graph)


def execution_order() -> list[Node]:
    """All nodes of the running backward, in the order in which they run if it runs alone."""
    state = local.state
    task = state.task
    if task is None:
        raise RuntimeError(
            "_current_graph_task_execution_order should only be called during the backward pass"
        )
    if state.multithreading:
        raise RuntimeError(SINGLE_THREAD)
    info, left = task.exec_info, dict(task.dependencies)
    heap = [(-root.sequence_nr, root) for root in task.graph_roots]
    heapify(heap)
    found = []
    while heap:
        node = heappop(heap)[1]
        found.append(node)
        for following, _ in node.next_functions:
            if following is None or not left.get(following) or not _runs(info, following):
                continue
            left[following] -= 1
            if not left[following]:
                heappush(heap, (-following.sequence_nr, following))
    return found


SINGLE_THREAD = """\
get_current_graph_task_execution_order expects the current backward to be executed with \
multithreading disabled, e.g. by running:

>>> with torch.autograd.set_multithreading_enabled(False):
...     torch.autograd.grad(...)
"""


def will_engine_execute_node(node: Any) -> bool:
    """Whether the running backward runs this node, or has run it."""
    if not isinstance(node, Node):
        kind = type(node).__name__
        raise RuntimeError(f"_will_engine_execute_node expects an grad_fn, but got {kind}")
    task = local.state.task
    if task is None:
        raise RuntimeError(
            "_get_should_execute_nodes should only be called during the backward pass"
        )
    if node not in task.dependencies or not _runs(task.exec_info, node):
        return False
    if task.exec_info is not None and not node.topological_nr and task.exec_info[node].captures:
        raise RuntimeError(
            "A leaf node was passed to _will_engine_execute_node but we are currently running "
            "autograd.grad(). This is currently not supported."
        )
    return True


def _runs(info: Any, node: Node) -> bool:
    entry = None if info is None else info.get(node)
    return info is None or (entry is not None and bool(entry.should_execute()))
