"""`torch.utils.data._utils`: parts of the data loader, under PyTorch's names."""

from __future__ import annotations

from gradscope.runtime.utils.data._utils import collate, fetch, worker

__all__ = ["collate", "fetch", "worker"]
