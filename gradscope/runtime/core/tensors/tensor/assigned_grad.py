"""What may be assigned to `.grad`."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.dtypes.names import c_name
from gradscope.runtime.core.errors.engine import leaves as errors


def check_grad(tensor: Any, value: Any) -> None:
    """Refuse what could not be the gradient of this tensor."""
    if not hasattr(value, "_array"):
        raise errors.grad_type(value)
    if value is tensor:
        raise errors.grad_is_itself(tensor)
    if value._array.dtype != tensor._array.dtype:
        raise errors.grad_dtype(c_name(value._array), tensor.dtype.scalar_name, tensor)
    if value.device != tensor.device:
        raise errors.grad_device(value.device.type, tensor.device.type, tensor)
    if value._array.shape != tensor._array.shape:
        raise errors.grad_shape(value._array.shape, tensor._array.shape, tensor)
