"""`torch.utils.data._utils`: the parts of a loader, where programs have come to look for them."""

from __future__ import annotations

from gradscope.runtime.utils.data._utils import collate, fetch, worker

__all__ = ["collate", "fetch", "worker"]
