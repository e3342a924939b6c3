"""Fallback at autograd keys for operators without an autograd kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradscope.runtime.core.dispatch.operators.key_dispatch import run, tensors_in
from gradscope.runtime.core.dispatch.operators.keys import AUTOGRAD_KEYS, DispatchKeySet
from gradscope.runtime.core.dispatch.operators.operator import Kernel
from gradscope.runtime.core.graph.new_node import prepare
from gradscope.runtime.core.graph.node import Node, new
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.state.warned import warn


def _warning(name: str) -> str:
    return (
        f"{name}: an autograd kernel was not registered to the Autograd key(s) but we are trying "
        "to backprop through it. This may lead to silently incorrect behavior. This behavior is "
        "deprecated and will be removed in a future version of PyTorch. If your operator is "
        "differentiable, please ensure you have registered an autograd kernel to the correct "
        "Autograd key (e.g. DispatchKey::Autograd, DispatchKey::CompositeImplicitAutograd). If "
        "your operator is not differentiable, or to squash this warning and use the previous "
        "behavior, please register torch::CppFunction::makeFallthrough() to DispatchKey::Autograd."
    )


class WarnNotImplemented(Node):
    """The node of a result without a derivative: warns, and sends no gradient."""

    __slots__ = ("operator",)

    operator: str

    def run_arrays(self, grads: Sequence[Any]) -> Sequence[Any]:
        warn(_warning(self.operator))
        return [None] * len(self.next_functions)

    run_tensors = run_arrays


def _pass(keys: DispatchKeySet, overload: Any, *args: Any, **kwargs: Any) -> Any:
    """Continue below and record the call; a later backward warns."""
    operator = overload.operator
    result = run(operator, keys - AUTOGRAD_KEYS, args, kwargs)
    state = local.state
    inputs = [t for t in tensors_in((*args, *kwargs.values())) if t.requires_grad]
    if state.grad_enabled and inputs:
        outputs = result if isinstance(result, list | tuple) else (result,)
        for made in tensors_in(outputs):
            _attach(operator.name, made, inputs)
    return result


def _attach(name: str, made: Any, inputs: Sequence[Any]) -> None:
    if made.requires_grad:
        made.register_hook(lambda _: warn(_warning(name)))
    elif made.is_floating_point() or made.is_complex():
        node = new(WarnNotImplemented)
        node.operator = name
        prepare(node, [t.gradient_edge() for t in inputs], local.state)
        node.input_metadata = ((made._array.shape, made._array.dtype),)
        node._saved = ()
        made._edge = (node, 0)


BELOW_AUTOGRAD = Kernel(_pass, "built in", with_keyset=True, boxed=True, kind="backend fallback")
