"""Calls of a node by the program: `grad_fn(grad)`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradscope.runtime.core.graph.node import Node
from gradscope.runtime.core.graph.run_node import apply
from gradscope.runtime.core.tensors.tensor.tensor import Tensor


def call_node(node: Node, *grads: Any, **named: Any) -> Any:
    """The gradients that the node returns for these. Its hooks do not run."""
    if named:
        raise TypeError("keyword arguments are not supported")
    check_arguments(grads, len(node.input_metadata))
    results = tuple(apply(node, list(grads), raw=False))
    return results[0] if len(results) == 1 else results


def check_arguments(given: Sequence[Any], count: int) -> None:
    """Refuse a wrong number of arguments, or arguments that are not tensors."""
    if len(given) != count:
        raise TypeError(f"expected {count} arguments, got {len(given)} instead")
    for index, each in enumerate(given):
        if each is not None and not isinstance(each, Tensor):
            raise TypeError(f"argument {index} is not a Variable")


Node.__call__ = call_node  # type: ignore[method-assign]
