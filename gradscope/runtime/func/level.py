"""What a derivative is taken by: fresh tensors, and whose graph its results keep.

# Note [Fresh inputs]
A function is called with copies of its inputs that begin a graph of their own. Where an input has a
graph already, because the caller or an outer transform wants a derivative of the derivative, its
copy is a view, so that the outer graph goes on through it.
"""

from __future__ import annotations

from typing import Any

from gradscope.runtime.autograd import grad as gradients_of
from gradscope.runtime.factories import zeros_like
from gradscope.runtime.func import trees
from gradscope.runtime.tensor import Tensor


def fresh(value: Any, name: str) -> Any:
    """The same nest with tensors that begin a graph."""

    def made(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(leaf)}")
        if leaf.requires_grad:
            return leaf.view_as(leaf)
        return leaf.detach().requires_grad_(leaf.is_floating_point() or leaf.is_complex())

    return trees.mapped(made, value)


def gradients(outputs: list[Any], inputs: list[Any], grads: list[Any]) -> list[Any]:
    """One backward; what does not depend on an input gives it zeros."""
    given = [one for one in inputs if one.requires_grad]
    starts = [(out, grad) for out, grad in zip(outputs, grads, strict=True) if out.requires_grad]
    found: list[Any] = [None] * len(given)
    if starts and given:
        found = list(
            gradients_of(
                [out for out, _ in starts],
                given,
                [grad for _, grad in starts],
                create_graph=True,
                allow_unused=True,
            )
        )
    by_input = dict(zip(map(id, given), found, strict=True))
    return [
        zeros_like(one) if by_input.get(id(one)) is None else by_input[id(one)] for one in inputs
    ]


def kept(value: Any, inputs: list[Any]) -> Any:
    """A nest whose tensors keep their graph only where it leads beyond the fresh inputs."""
    own = {id(one) for one in inputs}

    def left(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or not leaf.requires_grad:
            return leaf
        return leaf if _leads_beyond(leaf, own) else leaf.detach()

    return trees.mapped(left, value)


def _leads_beyond(tensor: Any, own: set[int]) -> bool:
    """Whether the graph of a tensor ends in a leaf that is none of these."""
    if tensor.grad_fn is None:
        return id(tensor) not in own
    seen, waiting = set(), [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None and id(leaf) not in own:
            return True
        waiting += [following for following, _ in node.next_functions]
    return False
