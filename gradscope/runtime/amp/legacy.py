"""Deprecated names of autocast and GradScaler by device type; they warn."""

from __future__ import annotations

import functools
import warnings
from typing import Any

from gradscope.runtime.amp import autocast_mode, grad_scaler


def _old(old: str, new: str) -> None:
    text = f"`torch.{old}(args...)` is deprecated. Please use `torch.amp.{new}` instead."
    warnings.warn(text, FutureWarning, stacklevel=3)


def autocast_of(device: str, default: Any) -> type[autocast_mode.autocast]:
    """`torch.<device>.amp.autocast`."""

    class autocast(autocast_mode.autocast):  # noqa: N801
        """`torch.autocast` for one kind of device."""

        def __init__(
            self, enabled: bool = True, dtype: Any = default, cache_enabled: bool = True
        ) -> None:
            _old(f"{device}.amp.autocast", f"autocast('{device}', args...)")
            super().__init__(device, enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)

    return autocast


def scaler_of(device: str) -> type[grad_scaler.GradScaler]:
    """`torch.<device>.amp.GradScaler`."""

    class GradScaler(grad_scaler.GradScaler):
        """`torch.amp.GradScaler` for one kind of device."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            _old(f"{device}.amp.GradScaler", f"GradScaler('{device}', args...)")
            super().__init__(device, *args, **kwargs)

    return GradScaler


def custom_fwd(fwd: Any = None, *, cast_inputs: Any = None) -> Any:
    """`torch.amp.custom_fwd` for CUDA."""
    _old("cuda.amp.custom_fwd", "custom_fwd(args..., device_type='cuda')")
    made = functools.partial(autocast_mode.custom_fwd, device_type="cuda")
    return made(fwd=fwd, cast_inputs=cast_inputs)


def custom_bwd(bwd: Any) -> Any:
    """`torch.amp.custom_bwd` for CUDA."""
    _old("cuda.amp.custom_bwd", "custom_bwd(args..., device_type='cuda')")
    return autocast_mode.custom_bwd(bwd, device_type="cuda")
