"""`torch.autograd.anomaly_mode`: finds the operation whose backward returns NaN."""

from __future__ import annotations

from gradscope.runtime.core.autograd.modes.anomaly_mode import (
    detect_anomaly,
    set_detect_anomaly,
)

__all__ = [
    "detect_anomaly",
    "set_detect_anomaly",
]
