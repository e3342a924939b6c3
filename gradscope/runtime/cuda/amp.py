"""`torch.cuda.amp`: deprecated names. Without CUDA they warn and have no effect."""

from __future__ import annotations

from gradscope.runtime.amp.legacy import autocast_of, custom_bwd, custom_fwd, scaler_of
from gradscope.runtime.core.dtypes import dtypes

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]

autocast = autocast_of("cuda", dtypes.float16)
GradScaler = scaler_of("cuda")
