"""`torch.signal`: the windows signals are looked at through."""

from gradscope.runtime.signal import windows as windows

__all__ = ["windows"]
