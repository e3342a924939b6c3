"""Types from before dtypes: `torch.FloatTensor(2, 3)`, `isinstance(x, torch.LongTensor)`."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.tensors.tensor.tensor import Tensor


class LegacyType(type):
    """The type of tensors of one dtype."""

    dtype: dtypes.dtype
    is_cuda = False

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        from gradscope.runtime.core.tensors.making.factories import legacy_new

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
