"""`torch._C._functions`: the classes of nodes by name, and two functions with special nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradscope.runtime.core.autograd.custom.once_differentiable import DelayedError as Error
from gradscope.runtime.core.autograd.engine.accumulate_grad import AccumulateGrad
from gradscope.runtime.core.autograd.engine.run_by_hand import check_arguments
from gradscope.runtime.core.calls.late import node_class
from gradscope.runtime.core.errors import missing
from gradscope.runtime.core.graph.new_node import prepare
from gradscope.runtime.core.graph.node import NOWHERE, Node, new
from gradscope.runtime.core.graph.node_interface import Node as AnyNode
from gradscope.runtime.core.rows.operation import REGISTRY
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors.placement import wrapped_on
from gradscope.runtime.core.tensors.views.views import (
    AsStridedBackward0,
    CopySlices,
    set_gradient_edge,
)


class DelayedError:
    """Returns its inputs; a backward that reaches it raises."""

    def __init__(self, *given: Any) -> None:
        if len(given) != 2:
            raise RuntimeError(f"Requires two arguments, got {len(given)}")
        if not isinstance(given[0], str):
            raise RuntimeError("argument 'msg' must be a string")
        self.message, self.count = given

    def __call__(self, *tensors: Any) -> Any:
        check_arguments(tensors, self.count)
        node = new(Error)
        node.message, node.of = self.message, ""
        return _led_to(node, tensors, [wrapped_on(x._array, x.device) for x in tensors])


class UndefinedGrad:
    """Returns a copy of a tensor; its backward sends an undefined gradient, not zeros."""

    next_functions = ()

    def __init__(self, *given: Any) -> None:
        if given:
            raise RuntimeError(f"Requires zero arguments, got {len(given)}")

    def __call__(self, *tensors: Any) -> Any:
        check_arguments(tensors, 1)
        return _led_to(new(UndefinedGradBackward), tensors, [x.detach().clone() for x in tensors])


class UndefinedGradBackward(Node):
    """Receives a gradient and sends none."""

    __slots__ = ()

    def run_arrays(self, grads: Sequence[Any]) -> Sequence[Any]:
        return (None,) * len(self.next_functions)

    run_tensors = run_arrays


AnyNode.register(DelayedError)
AnyNode.register(UndefinedGrad)


def _led_to(node: Node, given: Sequence[Any], made: Sequence[Any]) -> Any:
    """The results for some tensors, with a node if one of them requires grad."""
    if any(x.requires_grad for x in given):
        state = local.state
        recorded = state.grad_enabled
        prepare(node, [x.gradient_edge() or NOWHERE for x in given] if recorded else (), state)
        node.input_metadata = tuple((x._array.shape, x._array.dtype) for x in made)
        for nr, each in enumerate(made):
            set_gradient_edge(each, node, nr)
    return made[0] if len(made) == 1 else tuple(made)


_NATIVE = {cls.__name__: cls for cls in (AccumulateGrad, AsStridedBackward0, CopySlices, Error)}


def __getattr__(name: str) -> Any:
    found = _NATIVE.get(name)
    if found is not None:
        return found
    for operation in REGISTRY.values():
        if operation.node_name == name:
            return node_class(operation)
    raise missing.no_module_attribute("torch._C._functions", name, __dir__())


def __dir__() -> list[str]:
    nodes = {each.node_name for each in REGISTRY.values() if each.node_name}
    ours = ["DelayedError", "UndefinedGrad", "UndefinedGradBackward"]
    module = ["__doc__", "__loader__", "__name__", "__package__", "__spec__"]
    return sorted({*nodes, *_NATIVE, *ours, *module})
