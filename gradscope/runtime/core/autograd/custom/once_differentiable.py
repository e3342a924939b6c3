"""once_differentiable: backwards whose results cannot be differentiated again."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from gradscope.runtime.core.autograd.custom.returned import NO_GRADIENT
from gradscope.runtime.core.autograd.modes.grad_mode import no_grad
from gradscope.runtime.core.errors.engine import returned as errors
from gradscope.runtime.core.graph.new_node import prepare
from gradscope.runtime.core.graph.node import NOWHERE, Node, new
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors.placement import wrapped_on
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.core.tensors.views.views import set_gradient_edge


class DelayedError(Node):
    """The node of a gradient that cannot be differentiated again: raises when it runs."""

    __slots__ = ("message", "of")
    message: str
    of: str  # name of the custom function's node, if any

    def run_arrays(self, grads: Sequence[Any]) -> Sequence[Any]:
        if not self.of:
            raise RuntimeError(self.message)
        raise errors.once_differentiable(self.message, self.of)

    run_tensors = run_arrays


DelayedError.__name__ = DelayedError.__qualname__ = "Error"


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Run a backward without recording: its result cannot be differentiated again."""

    @functools.wraps(backward)
    def once(ctx: Any, *grads: Any, **kwargs: Any) -> Any:
        with no_grad():
            made = backward(ctx, *grads, **kwargs)
        if not local.state.grad_enabled:
            return made
        if not any(isinstance(grad, Tensor) and grad.requires_grad for grad in grads):
            return made
        results = made if isinstance(made, tuple) else (made,)
        return undifferentiable(results, TWICE, ctx.name())

    return once


TWICE = "trying to differentiate twice a function that was marked with @once_differentiable"


def undifferentiable(results: Sequence[Any], message: str, name: str = "") -> tuple[Any, ...]:
    """Aliases of these gradients whose node raises an error."""
    node = new(DelayedError)
    node.of, node.message = name, message
    found = [None if r is None else r.detach().requires_grad_() if name else r for r in results]
    edges = [NOWHERE if r is None else r.gradient_edge() or NOWHERE for r in found]
    prepare(node, edges, local.state)
    node.input_metadata = tuple(
        NO_GRADIENT if r is None else (r._array.shape, r._array.dtype) for r in found
    )
    made = [None if r is None else wrapped_on(r._array, r.device) for r in found]
    for nr, result in enumerate(made):
        if result is not None:
            set_gradient_edge(result, node, nr)
    return tuple(made)
