"""`torch.distributed.algorithms.ddp_comm_hooks`: functions that reduce buckets of gradients."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.errors import missing
from gradscope.runtime.distributed.algorithms.ddp_comm_hooks import default_hooks

__all__ = ["default_hooks"]


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.distributed.algorithms.ddp_comm_hooks", name, __all__)
