"""Runs a node's function and fits its gradients to their shapes and dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradscope.runtime.core.devices.devices import stream_of
from gradscope.runtime.core.errors.engine import returned as errors
from gradscope.runtime.core.graph.node import Node, device_of
from gradscope.runtime.core.kernels.support import HALVES
from gradscope.runtime.core.rows.traits import BY_HAND
from gradscope.runtime.core.state.array_calls import layout_only
from gradscope.runtime.core.state.thread import ThreadState, local

add_reduce: Any = np.add.reduce


def validate_count(node: Node, outputs: Sequence[Any]) -> Sequence[Any]:
    """Check the number of gradients. A surplus is allowed if it is None."""
    wanted = len(node.next_functions)
    if len(outputs) < wanted or any(extra is not None for extra in outputs[wanted:]):
        raise errors.node_gradient_count(node, wanted, len(outputs))
    return outputs[:wanted]


def validate_outputs(node: Node, outputs: Sequence[Any], *, raw: bool) -> list[Any]:
    """Check what a node returned, and fit each gradient."""
    return [
        grad
        if grad is None or following is None
        else fitted(node, index, grad, *following.input_metadata[nr], raw=raw)
        for index, (grad, (following, nr)) in enumerate(
            zip(validate_count(node, outputs), node.next_functions, strict=True)
        )
    ]


@layout_only
def fitted(node: Node, index: int, grad: Any, shape: Any, dtype: Any, *, raw: bool) -> Any:
    """The gradient, summed to the shape and cast to the dtype of its tensor."""
    if raw and not isinstance(grad, np.ndarray):
        grad = np.asarray(grad)
    found = grad.shape if raw else grad._array.shape
    if tuple(found) != tuple(shape):
        if not expandable(shape, found):
            raise errors.gradient_shape(node, index, found, shape)
        grad = sum_to_shape(grad, shape) if raw else grad.sum_to_size(*shape)
    kind = grad.dtype if raw else grad._array.dtype
    if dtype is not None and kind != dtype:  # None: a leaf that accepts any, see `grad_dtype`
        unlike = (kind.kind == "c") != (dtype.kind == "c")
        if unlike and kind.kind not in "fV" and not hasattr(node, "op"):
            raise errors.gradient_dtype(node, index, _dtype(kind), _dtype(dtype))
        if kind.kind == "c" and dtype.kind != "c":
            grad = grad.real
        grad = grad.astype(dtype) if raw else grad.to(_dtype(dtype))
    return grad


def _dtype(dtype: Any) -> Any:
    from gradscope.runtime.core.dtypes.dtypes import from_numpy

    return from_numpy(dtype)


def expandable(shape: Sequence[int], target: Sequence[int]) -> bool:
    """Whether `shape` could have been broadcast to `target`."""
    if len(shape) > len(target):
        return False
    pairs = zip(reversed(shape), reversed(target), strict=False)
    return all(size in (1, wanted) for size, wanted in pairs)


def sum_to_shape(array: Any, shape: Sequence[int]) -> Any:
    """Undo a broadcast: sum over repeated dims, halves in single precision.

    Removing leading dims returns a view, as in PyTorch: nothing is added to it in place.
    """
    if array.dtype in HALVES and array.shape != tuple(shape):
        return sum_to_shape(array.astype(np.float32), shape).astype(array.dtype)
    lead = array.ndim - len(shape)
    if lead:
        array = add_reduce(array, tuple(range(lead)))[...]
    axes = tuple([i for i, size in enumerate(shape) if size == 1 and array.shape[i] != 1])
    return np.asarray(add_reduce(array, axes, keepdims=True) if axes else array)


def apply(node: Node, grads: Sequence[Any], *, raw: bool) -> Sequence[Any]:
    """Run a node's function, also on complex gradients if its formula is for real ones.

    # Note [Complex gradients]
    For a holomorphic function PyTorch defines the gradient as conj(f'(z)) times the incoming one.
    That is the conjugate of the real formula at the conjugate of the incoming gradient. Operations
    that are not holomorphic (abs, real, conj) have their own formulas, marked BY_HAND. A view's
    formula only moves values and needs no conjugates.
    """
    if node._extra is None or not node._extra.conjugates:
        return run(node, grads, raw=raw)
    op = getattr(node, "op", None)
    if op is None or BY_HAND in op.traits or op.plan.kind == "view":
        return run(node, grads, raw=raw)
    return [_conj(g) for g in run(node, [_conj(g) for g in grads], raw=raw)]


def run(node: Node, grads: Sequence[Any], *, raw: bool) -> Sequence[Any]:
    """Run a node's function: on arrays as one kernel of its device, on tensors as several.

    On tensors, constants of a formula move to the device it runs on.
    """
    if not ThreadState.devices or node.written_by_user:
        return node.run_arrays(grads) if raw else node.run_tensors(grads)
    if raw:
        where = device_of(node)
        if where is not None:
            stream_of(where).launch()
        return node.run_arrays(grads)
    state = local.state
    before, state.formula = state.formula, True
    try:
        return node.run_tensors(grads)
    finally:
        state.formula = before


def _conj(grad: Any) -> Any:
    if grad is None:
        return None
    array = grad if isinstance(grad, np.ndarray | np.generic) else grad._array
    return grad.conj() if array.dtype.kind == "c" else grad
