"""Names in PyTorch's files, and the objects here."""

from __future__ import annotations

import codecs
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from gradscope.runtime.core.devices import devices
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.state import settings
from gradscope.runtime.core.tensors import copying
from gradscope.runtime.core.tensors.size import Size
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.nn import parameter
from gradscope.runtime.nn.parameter import Parameter


@dataclass(frozen=True, slots=True)
class StorageType:
    """A storage class in files: `torch.FloatStorage`; `UntypedStorage` for plain bytes."""

    module: str
    name: str
    dtype: dtypes.dtype


UNTYPED: Final = StorageType("torch.storage", "UntypedStorage", dtypes.uint8)

_TYPED: Final = {
    kind: StorageType("torch", f"{kind.scalar_name}Storage", kind)
    for kind in dtypes.NAMES.values()
    if kind not in copying.WITHOUT_STORAGE and kind is not dtypes.complex32
}

STORAGES: Final = {
    **{f"torch.{each.name}": each for each in _TYPED.values()},
    "torch.storage.UntypedStorage": UNTYPED,
    "torch.UntypedStorage": UNTYPED,
}


def storage_type(dtype: dtypes.dtype | None) -> StorageType:
    return UNTYPED if dtype is None else _TYPED[dtype]


REBUILDS: Final[dict[str, Callable[..., Any]]] = {
    "torch._utils._rebuild_tensor": copying.rebuild_plain,
    "torch._utils._rebuild_tensor_v2": copying.rebuild_tensor,
    "torch._utils._rebuild_tensor_v3": copying.rebuild_of_dtype,
    "torch._utils._rebuild_parameter": parameter.rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": parameter.rebuild_parameter_with_state,
    "torch._tensor._rebuild_from_type_v2": copying.rebuild_subclass,
    "torch.serialization._get_layout": settings.layout_named,
    "torch.Size": Size,
    "torch.Tensor": Tensor,
    "torch.device": devices.device,
    "torch.nn.parameter.Parameter": Parameter,
}

NAMES: Final[dict[str, Any]] = {
    **REBUILDS,
    **{repr(kind): kind for kind in dtypes.NAMES.values()},
    **STORAGES,
}
"""Names in files that differ here, or are defined elsewhere."""

PYTORCHS: Final = {id(value): name for name, value in reversed(NAMES.items())}
"""The first name of each object, by id: none of them is ever freed."""

PLAIN: Final[dict[str, Any]] = {
    "_codecs.encode": codecs.encode,  # Python 2's way to pickle bytes
    "builtins.bytearray": bytearray,
    "builtins.complex": complex,
    "builtins.set": set,
    "collections.Counter": Counter,
    "collections.OrderedDict": OrderedDict,
}
"""Python's own classes that contain only data."""
