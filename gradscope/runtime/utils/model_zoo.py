"""`torch.utils.model_zoo`: the old name of `torch.hub`'s loading of weights."""

from __future__ import annotations

from gradscope.runtime.hub import load_state_dict_from_url as load_url

__all__ = ["load_url"]
