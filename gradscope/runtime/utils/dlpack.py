"""`torch.utils.dlpack`: share tensors with other libraries."""

from __future__ import annotations

from gradscope.runtime.core.tensors.memory.exchange import from_dlpack, to_dlpack
from gradscope.runtime.core.tensors.tensor.sharing import DLDeviceType

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]
