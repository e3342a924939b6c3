"""Tensor methods of autograd: backward, hooks, and the graph in its repr."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.autograd.engine.backward import run_backward
from gradscope.runtime.core.autograd.forward.forward_grad import fw_grad
from gradscope.runtime.core.autograd.hooks import hooks
from gradscope.runtime.core.tensors import printing
from gradscope.runtime.core.tensors.tensor.overriding import leave_alone
from gradscope.runtime.core.tensors.tensor.tensor import Tensor, add_methods


def backward(
    self: Any,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Accumulate the gradients of this tensor into the `.grad` of leaves."""
    run_backward(self, gradient, retain_graph, create_graph, inputs)


def shown(self: Any, *, tensor_contents: Any = None) -> str:
    cls = type(self)
    plain = cls is Tensor or cls.__torch_function__ is leave_alone
    tangent, node_name = fw_grad(self), printing.name_of_node(self)
    return printing.format_tensor(
        self._array,
        class_name="tensor" if plain else cls.__name__,
        dtype=self.dtype,
        requires_grad=self.requires_grad and node_name is None,
        grad_fn_name=node_name,
        device=str(self.device),
        tangent=None if tangent is None else f"{tangent}",
    )


def register_hook(self: Any, hook: Any) -> Any:
    return hooks.register_hook(self, hook)


def register_post_accumulate_grad_hook(self: Any, hook: Any) -> Any:
    return hooks.register_post_accumulate(self, hook)


def retain_grad(self: Any) -> None:
    hooks.retain_grad(self)


add_methods(
    __repr__=shown,
    backward=backward,
    register_hook=register_hook,
    register_post_accumulate_grad_hook=register_post_accumulate_grad_hook,
    retain_grad=retain_grad,
)
