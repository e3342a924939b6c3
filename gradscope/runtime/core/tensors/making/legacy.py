"""Types from before dtypes: `torch.FloatTensor(2, 3)`, `isinstance(x, torch.LongTensor)`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.runtime.core import probe
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.dtypes.names import tp_name, type_name
from gradscope.runtime.core.errors.memory import allocated
from gradscope.runtime.core.tensors.making.factories import (
    array_of,
    dtype_named,
    is_sequence,
    sizes_of,
)
from gradscope.runtime.core.tensors.size import Size
from gradscope.runtime.core.tensors.tensor.tensor import Tensor, add_methods, alias_of
from gradscope.runtime.core.tensors.wrapping import fresh


class LegacyType(type):
    """The class of tensors of one dtype."""

    dtype: dtypes.dtype
    is_cuda = False

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return legacy_new(Tensor, args, kwargs, cls.dtype).to(cls.dtype)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.dtype is cls.dtype

    def __repr__(cls) -> str:
        return f"<class 'torch.{cls.__name__}'>"


LEGACY_TYPES: dict[str, Any] = {
    f"{kind.scalar_name}Tensor": LegacyType(f"{kind.scalar_name}Tensor", (), {"dtype": kind})
    for kind in dtypes.ALL
    if not kind.name.startswith(("uint1", "uint3", "uint6", "complex"))
}


def dtype_of_type(kind: Any) -> Any:
    """The dtype of an argument of `Tensor.type`: may be a legacy type, or the tensor class."""
    if kind is Tensor or kind == "torch.Tensor":
        return dtypes.get_default_dtype()
    if isinstance(kind, LegacyType):
        return kind.dtype
    if isinstance(kind, type) or (isinstance(kind, str) and not kind.endswith("Tensor")):
        raise ValueError(f"invalid type: '{kind.__name__ if isinstance(kind, type) else kind}'")
    return dtype_named(kind)


def legacy_new(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: Any = None) -> Any:
    """`torch.Tensor(2, 3)`, `torch.Tensor([1, 2])`, and the constructor of subclasses.

    A tensor keeps its dtype. Other data becomes `dtype`, or the default dtype.
    """
    if not args and "data" in kwargs:
        args = (kwargs["data"],)
    if len(args) == 1 and isinstance(args[0], Tensor):
        return alias_of(args[0], cls)
    wanted = dtype or dtypes.get_default_dtype()
    if len(args) != 1 or isinstance(args[0], Size):
        array = allocated(np.empty, sizes_of(args) if args else (0,), wanted.numpy)
    elif is_sequence(args[0]):
        array = array_of(args[0], wanted).copy()
    elif hasattr(args[0], "__index__") and not isinstance(args[0], bool):
        array = allocated(np.empty, sizes_of(args), wanted.numpy)
    elif isinstance(args[0], str | bytes):
        raise TypeError(f"new(): invalid data type '{type(args[0]).__name__}'")
    else:
        raise TypeError(f"new(): data must be a sequence (got {tp_name(args[0])})")
    made = alias_of(fresh(array), cls)
    if probe.here is not None:
        probe.here.came_in(made)
    return made


def _new(cls: Any, *args: Any, **kwargs: Any) -> Any:
    return legacy_new(cls, args, kwargs)


def _type(self: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
    return type_name(self._array) if dtype is None else self.to(dtype_of_type(dtype))


Tensor.__new__ = staticmethod(_new)  # type: ignore[method-assign]
add_methods(type=_type)
