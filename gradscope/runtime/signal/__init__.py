"""`torch.signal`: window functions."""

from gradscope.runtime.signal import windows as windows

__all__ = ["windows"]
