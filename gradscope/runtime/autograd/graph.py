"""`torch.autograd.graph`: nodes and edges, hooks on saved tensors and on several tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from gradscope.runtime.core.autograd.custom.custom_node import BackwardCFunction
from gradscope.runtime.core.autograd.hooks.multi_grad import node_of, register_multi_grad_hook
from gradscope.runtime.core.autograd.hooks.mutation import allow_mutation_on_saved_tensors
from gradscope.runtime.core.autograd.hooks.saving import (
    disable_saved_tensors_hooks,
    save_on_cpu,
    saved_tensors_hooks,
)
from gradscope.runtime.core.autograd.modes.grad_mode import enable_grad
from gradscope.runtime.core.errors.engine.in_place import not_tensors
from gradscope.runtime.core.errors.engine.starting import edge_without_grad
from gradscope.runtime.core.graph.node_interface import Node
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.core.tensors.views.in_place import count_told_write
from gradscope.runtime.core.tensors.views.inference import is_inference

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "node_creation_hook",
    "region_activation_memory_budget",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
    "set_override_stale_capture_stream",
    "set_warn_on_accumulate_grad_stream_mismatch",
]


class GradientEdge(NamedTuple):
    """The edge where a tensor's gradient arrives, without the tensor."""

    node: Any
    output_nr: int
    ownership_token: Any = None  # a node that keeps the graph alive, in PyTorch


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """The edge of a tensor's gradient. `grad` and `backward` accept it in place of the tensor."""
    if not tensor.requires_grad:
        raise edge_without_grad(tensor)
    node, token = node_of(tensor), None
    if isinstance(node, BackwardCFunction):
        with enable_grad():
            token = tensor.view_as(tensor).grad_fn
    return GradientEdge(node, tensor.output_nr, token)


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Increment the version of one tensor or several, for a write outside of any operation."""
    try:
        given = [tensor] if isinstance(tensor, Tensor) else list(tensor)
    except TypeError:
        raise not_tensors("increment_version expect a Iterable[Tensor] as input") from None
    for each in given:
        if not isinstance(each, Tensor):
            raise not_tensors(
                "increment_version expects each element of the iterable to be a tensor"
            )
        if not is_inference(each):
            count_told_write(each, "increment_version")


@contextmanager
def node_creation_hook(hook: Callable[[Node], None]) -> Iterator[None]:
    """Call `hook(node)` for each node created in the block by this thread, before it has users.

    PyTorch has no public equivalent. Changes that the hook makes to the node (metadata, hooks)
    stay. A node created by the hook itself is not shown.
    """
    state = local.state

    def shown(node: Node) -> None:
        state.node_creation_hooks.remove(shown)
        try:
            hook(node)
        finally:
            state.node_creation_hooks.append(shown)

    state.node_creation_hooks.append(shown)
    state.refresh()
    try:
        yield
    finally:
        state.node_creation_hooks.remove(shown)
        state.refresh()


def region_activation_memory_budget(budget: float) -> Any:
    """Raises an error, as PyTorch does outside of torch.compile."""
    name = "torch.autograd.graph.region_activation_memory_budget"
    if isinstance(budget, bool) or not isinstance(budget, int | float):
        raise TypeError(f"{name}: expects a float, got {type(budget).__name__}")
    if not 0.0 <= budget <= 1.0:
        raise ValueError(f"{name}: must be in [0, 1], got {budget}")
    raise RuntimeError(
        f"{name} can only be used inside a torch.compile region; it has no effect in eager mode."
    )


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Does nothing: there are no CUDA streams here."""
    _check_switch(enabled)


def set_override_stale_capture_stream(enabled: bool) -> None:
    """Does nothing: there are no CUDA graphs here."""
    _check_switch(enabled)


def _check_switch(enabled: bool) -> None:
    if not isinstance(enabled, bool):
        raise RuntimeError(f"enabled must be a bool, but got {type(enabled).__name__}")
