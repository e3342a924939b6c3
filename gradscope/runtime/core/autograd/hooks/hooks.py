"""Hooks on tensors and nodes: registration, and calls by the engine."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gradscope.runtime.core import probe
from gradscope.runtime.core.errors.engine import tensor_hooks as errors
from gradscope.runtime.core.graph.node import device_of
from gradscope.runtime.core.state.array_calls import layout_only
from gradscope.runtime.core.state.hook_handles import RemovableHandle
from gradscope.runtime.core.tensors import wrapping
from gradscope.runtime.core.tensors.placement import wrapped_on

if TYPE_CHECKING:
    from gradscope.runtime.core.graph.node import Node
    from gradscope.runtime.core.tensors.tensor.tensor import Tensor

Hooks = OrderedDict[int, Callable[..., Any]]

TENSOR, PRE, POST, RETAINS_GRAD, CAPTURE, POST_ACCUMULATE = range(6)


def register_hook(tensor: Tensor, hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(grad)` when the tensor's gradient is complete. It may replace the gradient."""
    if not tensor.requires_grad:
        raise errors.hook_without_grad(tensor)
    return RemovableHandle.added(hooks_of(tensor), hook)


def hooks_of(tensor: Tensor) -> Hooks:
    """The tensor's hooks. A leaf has its own; others share their node's."""
    edge = tensor.history()  # updates the history of a view, which drops its hooks
    meta = tensor.meta()
    if meta.hooks is None:
        meta.hooks = OrderedDict()
        if edge is not None:
            node, nr = edge
            node.extra().tensor_pre_hooks.append((nr, meta.hooks))
    return meta.hooks


def register_post_accumulate(tensor: Tensor, hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(tensor)` each time its `.grad` has been updated."""
    if not tensor.requires_grad:
        raise errors.hook_without_grad(tensor)
    if tensor.history() is not None:
        raise errors.accumulate_hook_non_leaf(tensor)
    meta = tensor.meta()
    if meta.post_accumulate_hooks is None:
        meta.post_accumulate_hooks = OrderedDict()
    return RemovableHandle.added(meta.post_accumulate_hooks, hook)


@layout_only
def retain_grad(tensor: Tensor) -> None:
    """Fill `.grad` of a non-leaf tensor, after all its hooks have run."""
    if not tensor.requires_grad:
        raise errors.retain_without_grad(tensor)
    if tensor.is_leaf_so_far():
        return
    meta = tensor.meta()
    if meta.retains_grad:
        return
    node, nr = tensor.gradient_edge()  # may be a new node for a view
    meta.retains_grad = True
    held = weakref.ref(tensor)

    def keep(grad: Any) -> None:
        kept = held()
        if kept is not None:
            fields = kept.meta()
            fields.grad = grad.clone() if fields.grad is None else fields.grad + grad

    node.extra().retains_grad[nr] = keep


def run_tensor_hooks(task: Any, node: Node, hooks: Hooks, nr: int, value: Any, raw: bool) -> Any:
    """Run the hooks of one tensor. Each may replace the gradient."""
    grad = wrapped_on(value, device_of(node)) if raw and value is not None else value
    here = probe.here
    for index, hook in enumerate(list(hooks.values())):
        if here is not None:
            begins(here, task, node, TENSOR, index, hook, (grad,), nr)
        made = hook(grad)
        if made is not None:
            grad = checked(made, grad, hook)
        if here is not None:
            ends(here, task, node, TENSOR, index, made is not None, (grad,), nr)
    return grad._array if raw and grad is not None else grad


def begins(
    here: Any,
    task: Any,
    node: Node,
    kind: int,
    index: int,
    hook: Any,
    grads: Sequence[Any],
    nr: int = 0,
) -> None:
    """Report to the watcher that a hook is called with these gradients."""
    here.hook_begins(task, node, kind, index, hook)
    if here.look is not None:
        here.look.handed(node, grads, nr)


def ends(
    here: Any,
    task: Any,
    node: Node,
    kind: int,
    index: int,
    replaced: bool,
    grads: Sequence[Any],
    nr: int = 0,
) -> None:
    """Report to the watcher that a hook returned, and the resulting gradients."""
    here.hook_ends(task, node, kind, index, replaced, grads)
    if here.look is not None and task is not None:
        here.look.hooked(task, node, nr, grads)


def checked(made: Any, before: Any, hook: Any) -> Any:
    """Refuse a hook's result that cannot replace the gradient."""
    if not isinstance(made, wrapping.Tensor):
        raise errors.hook_type(hook, made)
    if before is None:
        raise errors.hook_replaced_none(hook)
    if made._array.dtype != before._array.dtype:
        raise errors.hook_dtype(hook, _kind(before), _kind(made))
    if made._array.shape != before._array.shape:
        raise errors.hook_size(hook, before._array.shape, made._array.shape)
    if made.device != before.device:
        raise errors.hook_device(hook, before.device, made.device)
    return made


def _kind(tensor: Any) -> str:
    """The type of a tensor for errors, as PyTorch's engine names it."""
    dtype = tensor.dtype
    if dtype.is_complex or dtype.scalar_name in ("Bool", "BFloat16"):
        return f"CPU{dtype.scalar_name}Type"
    return str(tensor.type())


def run_pre_hooks(task: Any, node: Node, hooks: Hooks, values: Any, raw: bool) -> Any:
    """Run a node's pre-hooks. Returns the gradients it receives."""
    grads = _wrapped(values, raw, [device_of(node)] * len(values))
    here = probe.here
    for index, hook in enumerate(list(hooks.values())):
        if here is not None:
            begins(here, task, node, PRE, index, hook, grads)
        made = hook(grads)
        if made is not None:
            grads = _replaced(made, grads, hook)
        if here is not None:
            ends(here, task, node, PRE, index, made is not None, grads)
    return _unwrapped(grads, raw)


def run_post_hooks(
    task: Any, node: Node, hooks: Hooks, outputs: Any, inputs: Any, raw: bool
) -> Any:
    """Run a node's post-hooks. Returns the gradients it sends."""
    targets = [None if n is None else device_of(n) for n, _ in node.next_functions]
    results = _wrapped(outputs, raw, targets)
    sources = _wrapped(inputs, raw, [device_of(node)] * len(inputs))
    here = probe.here
    for index, hook in enumerate(list(hooks.values())):
        if here is not None:
            begins(here, task, node, POST, index, hook, (*results, *sources))
        made = hook(results, sources)
        if made is not None:
            results = _replaced(made, results, hook)
        if here is not None:
            ends(here, task, node, POST, index, made is not None, results)
    return _unwrapped(results, raw)


def _replaced(made: Any, before: Any, hook: Any) -> Any:
    if not isinstance(made, tuple):
        raise errors.hook_tuple(hook, made)
    if len(made) != len(before):
        raise errors.hook_count(hook, len(made), len(before))
    return tuple(
        None if new is None else checked(new, old, hook)
        for new, old in zip(made, before, strict=True)
    )


def _wrapped(values: Any, raw: bool, places: Sequence[Any]) -> tuple[Any, ...]:
    if not raw:
        return tuple(values)
    return tuple(
        None if value is None else wrapped_on(value, where)
        for value, where in zip(values, places, strict=True)
    )


def _unwrapped(values: tuple[Any, ...], raw: bool) -> Any:
    if not raw:
        return values
    return [None if value is None else value._array for value in values]
