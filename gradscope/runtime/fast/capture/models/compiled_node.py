"""The node of the results of a replayed forward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradscope.runtime.core.errors.engine import saved_values as errors
from gradscope.runtime.core.graph.new_node import prepare
from gradscope.runtime.core.graph.node import Node, new
from gradscope.runtime.core.state.thread import local

NO_DOUBLE = "torch.compile with aot_autograd does not currently support double backward"


class CompiledFunctionBackward(Node):
    """Replays a model's backward."""

    __slots__ = ("backward", "watched")

    backward: Callable[..., Any]
    watched: tuple[tuple[Any, int, Any], ...]  # version counters, their values, and their tensors

    def run_arrays(self, grads: Sequence[Any]) -> Sequence[Any]:
        if self._saved is None:
            raise errors.freed(self)
        for counter, before, what in self.watched:
            if counter.value != before:
                raise errors.modified_in_place(self, "", what, "", counter, before, counter.value)
        found: Sequence[Any] = self.backward(self._saved, grads)
        return found

    def run_tensors(self, grads: Sequence[Any]) -> Sequence[Any]:
        raise RuntimeError(NO_DOUBLE)


def node_of(
    backward: Callable[..., Any],
    edges: Sequence[tuple[Any, int]],
    saved: tuple[Any, ...],
    watched: tuple[tuple[Any, int, Any], ...],
    metadata: tuple[tuple[Any, Any], ...],
) -> CompiledFunctionBackward:
    """A node for one replay."""
    node: CompiledFunctionBackward = new(CompiledFunctionBackward)
    prepare(node, edges, local.state)
    node.backward, node.watched = backward, watched
    node._saved, node.input_metadata = saved or (None,), metadata
    return node
