"""Hooks on several tensors: called when all of their gradients are complete, or any."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakSet

from gradscope.runtime.core.errors.engine.tensor_hooks import multi_hook_leaf, multi_hook_mode
from gradscope.runtime.core.graph.node import Node
from gradscope.runtime.core.state.forking import renewed
from gradscope.runtime.core.state.hook_handles import RemovableHandle
from gradscope.runtime.core.state.thread import local


class _MultiHandle(RemovableHandle):
    """Several handles that are removed together."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __getstate__(self) -> Any:
        return self.handles

    def __setstate__(self, state: Any) -> None:
        self.handles = state


def register_multi_grad_hook(
    tensors: Sequence[Any], fn: Callable[..., Any], *, mode: str = "all"
) -> RemovableHandle:
    """Call `fn` when a backward has all gradients of `tensors` that it will compute (or any)."""
    if mode not in ("all", "any"):
        raise multi_hook_mode(mode)
    if mode == "any":
        return _on_first([tensor for tensor in tensors if tensor.requires_grad], fn)
    return _on_all(tensors, fn)


def node_of(tensor: Any) -> Node:
    """The node at which a tensor's gradient arrives."""
    edge = tensor.gradient_edge() or (None, 0)
    if edge[0] is None:
        raise AssertionError("Expected gradient function to be set")
    node: Node = edge[0]
    return node


def _on_all(tensors: Sequence[Any], fn: Callable[..., Any]) -> RemovableHandle:
    counts: defaultdict[Any, int] = defaultdict(int)
    expected: dict[Any, int] = {}
    grads: dict[Any, list[Any]] = {}
    lock = renewed(threading.Lock())
    nodes = [node_of(tensor) for tensor in tensors]

    def arrival(index: int) -> Callable[[Any], None]:
        def arrived(grad: Any) -> None:
            task = _running()
            with lock:
                if task not in expected:
                    expected[task] = sum(_will_run(task, node) for node in nodes)
                    grads[task] = [None] * len(tensors)
                grads[task][index] = grad
                counts[task] += 1
                complete = counts[task] == expected[task]
                found = grads[task]
                if complete:
                    del counts[task], expected[task], grads[task]
            if complete:
                fn(found)

        return arrived

    return _MultiHandle([tensor.register_hook(arrival(i)) for i, tensor in enumerate(tensors)])


def _on_first(tensors: Sequence[Any], fn: Callable[..., Any]) -> RemovableHandle:
    lock = renewed(threading.Lock())
    served: WeakSet[Any] = WeakSet()

    def arrived(grad: Any) -> None:
        task = _running()
        with lock:
            known = task in served
            served.add(task)
        if not known:
            fn(grad)

    return _MultiHandle([tensor.register_hook(arrived) for tensor in tensors])


def _running() -> Any:
    task = local.state.task
    if task is None:
        raise AssertionError("expected this hook to be called inside a backward call")
    return task


def _will_run(task: Any, node: Node) -> bool:
    """Whether the running backward will run a node."""
    if task.exec_info is not None:
        entry = task.exec_info.get(node)
        if entry is not None and entry.captures and not node.topological_nr:
            raise multi_hook_leaf()
        return entry is not None and entry.should_execute()
    return node in task.dependencies or node in task.graph_roots
