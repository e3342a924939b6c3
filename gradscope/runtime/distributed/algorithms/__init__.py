"""`torch.distributed.algorithms`: communication hooks of DistributedDataParallel."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.errors import missing
from gradscope.runtime.distributed.algorithms import ddp_comm_hooks

__all__ = ["ddp_comm_hooks"]


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.distributed.algorithms", name, __all__)
