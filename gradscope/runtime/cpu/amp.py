"""`torch.cpu.amp`: deprecated names of autocast and GradScaler for the CPU."""

from __future__ import annotations

from gradscope.runtime.amp.legacy import autocast_of, scaler_of
from gradscope.runtime.core.dtypes import dtypes

__all__ = ["GradScaler", "autocast"]

autocast = autocast_of("cpu", dtypes.bfloat16)
GradScaler = scaler_of("cpu")
