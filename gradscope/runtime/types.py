"""`torch.types`: names of types of arguments."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO, Any, TypeAlias

from gradscope.runtime.core.devices.devices import device as _device
from gradscope.runtime.core.dtypes.dtypes import dtype as _dtype
from gradscope.runtime.core.state.settings import layout as _layout
from gradscope.runtime.core.tensors.memory.storage import Storage
from gradscope.runtime.core.tensors.size import Size
from gradscope.runtime.core.tensors.tensor.tensor import Tensor

Number: TypeAlias = int | float | bool
Device: TypeAlias = _device | str | int | None
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
_size: TypeAlias = Size | list[int] | tuple[int, ...]
_int, _float, _bool, _complex = int, float, bool, complex
_Number: TypeAlias = Number
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
PySymType: TypeAlias = Any

__all__ = ["Device", "FileLike", "Number", "Storage", "_device", "_dtype", "_layout", "_size"]
