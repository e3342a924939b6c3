"""More factories: from other arrays, with given strides, without dims."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.runtime.core.devices import devices
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.errors.arguments.check_when_failing import judged
from gradscope.runtime.core.tensors.making.elements import element
from gradscope.runtime.core.tensors.making.factories import as_tensor, new_leaf
from gradscope.runtime.core.tensors.making.reals import fitting
from gradscope.runtime.core.tensors.placement import wrapped_on


def asarray(
    obj: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Any:
    """The object as a tensor, which shares its memory by default."""
    tensor = as_tensor(obj, dtype, device)
    if copy:
        tensor = wrapped_on(tensor._array.copy(), tensor.device)
    return tensor.requires_grad_(True) if requires_grad else tensor


@judged
def scalar_tensor(
    s: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
) -> Any:
    """A tensor without dims."""
    where = devices.check(device)
    kind = (dtype or dtypes.get_default_dtype()).numpy
    number = s if isinstance(s, int | float | complex) else s.item()
    array = fitting(np.array(element(number, kind, by_double=True)), kind).astype(kind)
    return new_leaf(array, requires_grad, where)


@judged
def empty_strided(
    size: Any,
    stride: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
) -> Any:
    """A tensor with uninitialized memory and these strides."""
    where = devices.check(device)
    kind = (dtype or dtypes.get_default_dtype()).numpy
    reach = 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True) if n)
    memory = np.empty(reach, kind)
    steps = tuple(step * kind.itemsize for step in stride)
    window = np.lib.stride_tricks.as_strided(memory, tuple(size), steps)
    return new_leaf(window, requires_grad, where)
