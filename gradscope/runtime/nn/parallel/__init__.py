"""`torch.nn.parallel`: modules that several devices, or several processes, train."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gradscope.runtime.core.errors import missing
from gradscope.runtime.nn.parallel.data_parallel import DataParallel as DataParallel

__all__ = ["DataParallel", "DistributedDataParallel"]


def __getattr__(name: str) -> Any:
    if name == "DistributedDataParallel":  # on first use: it imports torch.distributed
        module = import_module("gradscope.runtime.nn.parallel.distributed")
        return module.DistributedDataParallel
    raise missing.no_module_attribute("torch.nn.parallel", name, __all__)
