"""DataParallel: a module on several devices. There is one device here, which runs it."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.state.warned import warn_once
from gradscope.runtime.nn.modules.module import Module


class DataParallel(Module):
    """Calls the module unchanged: there are no GPUs to spread its batches over."""

    def __init__(
        self, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        if device_ids or output_device is not None:
            warn_once(
                f"DataParallel: gradscope's runtime has no GPUs, so device_ids={device_ids} and "
                f"output_device={output_device} are ignored: the module runs on its own device"
            )
        self.dim = dim
        self.module = module
        self.device_ids: list[Any] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)
