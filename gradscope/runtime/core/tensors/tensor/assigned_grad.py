"""Checks of values assigned to `.grad`."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.dtypes.names import c_name
from gradscope.runtime.core.errors.engine import leaves as errors
from gradscope.runtime.core.state.array_calls import layout_only
from gradscope.runtime.core.tensors.tensor.autograd_meta import AutogradMeta


def shown_grad_dtype(tensor: Any) -> Any:
    """The dtype required of a leaf's gradient; None: any."""
    if not tensor.is_leaf_so_far():
        raise errors.grad_dtype_of_non_leaf("accessed", tensor)
    if tensor._meta is None:
        return tensor.dtype
    kind = tensor._meta.dtype_of_grad(tensor._array.dtype)
    return None if kind is None else dtypes.from_numpy(kind)


def set_grad_dtype(tensor: Any, wanted: Any) -> None:
    """Set the dtype required of a leaf's gradient; None: any."""
    if not tensor.is_leaf_so_far():
        raise errors.grad_dtype_of_non_leaf("set", tensor)
    if wanted is not None and not isinstance(wanted, dtypes.dtype):
        raise errors.grad_dtype_type(wanted)
    meta = tensor.meta()
    if wanted is not None and meta.grad is not None and meta.grad.dtype is not wanted:
        raise errors.grad_dtype_of_another(wanted.scalar_name, c_name(meta.grad._array), tensor)
    meta.grad_dtype = None if wanted is None else wanted.numpy
    AutogradMeta.grad_dtypes = True
    node = meta.accumulator and meta.accumulator()
    if node is not None:
        node.input_metadata = ((tensor._array.shape, meta.grad_dtype),)


@layout_only
def check_grad(tensor: Any, value: Any) -> None:
    """Refuse a value that cannot be the gradient of this tensor."""
    if not hasattr(value, "_array"):
        raise errors.grad_type(value)
    if value is tensor:
        raise errors.grad_is_itself(tensor)
    own = tensor._array.dtype
    wanted = own if tensor._meta is None else tensor._meta.dtype_of_grad(own)
    if wanted is not None and value._array.dtype != wanted:
        name = dtypes.from_numpy(wanted).scalar_name
        raise errors.grad_dtype(c_name(value._array), name, tensor)
    if value.device != tensor.device:
        raise errors.grad_device(value.device.type, tensor.device.type, tensor)
    if value._array.shape != tensor._array.shape:
        raise errors.grad_shape(value._array.shape, tensor._array.shape, tensor)
