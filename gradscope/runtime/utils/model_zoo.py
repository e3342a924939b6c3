"""`torch.utils.model_zoo`: the older name of what loads weights in `torch.hub`."""

from __future__ import annotations

from gradscope.runtime.hub import load_state_dict_from_url as load_url

__all__ = ["load_url"]
