"""Mixed precision: automatic casts, and scaled losses for half precision."""

from __future__ import annotations

from gradscope.runtime.amp.autocast_mode import (
    autocast,
    custom_bwd,
    custom_fwd,
    is_autocast_available,
)
from gradscope.runtime.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
