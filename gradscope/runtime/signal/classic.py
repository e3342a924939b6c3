"""Old names of window functions: `torch.hann_window` and others."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.signal import windows


def _old(name: str, made: Any, window_length: int, periodic: bool, **named: Any) -> Any:
    """The new function, in any floating dtype."""
    options = {key: value for key, value in named.items() if key in _OPTIONS and value is not None}
    weights = {key: value for key, value in named.items() if key not in _OPTIONS}
    kind = options.pop("dtype", None) or dtypes.get_default_dtype()
    requires_grad = options.pop("requires_grad", False)
    if not (kind.is_floating_point or kind.is_complex):
        raise RuntimeError(f"{name} expects floating point dtypes, got: {kind}")
    if window_length < 0:
        raise RuntimeError(
            f"{name} requires non-negative window_length, got window_length={window_length}"
        )
    wide = kind if kind is dtypes.float64 else dtypes.float32
    window = made(window_length, sym=not periodic, dtype=wide, **weights, **options).to(kind)
    return window.requires_grad_(True) if requires_grad else window


_OPTIONS = ("dtype", "layout", "device", "pin_memory", "requires_grad")


def hann_window(window_length: int, periodic: bool = True, **options: Any) -> Any:
    return _old("hann_window", windows.hann, window_length, periodic, **options)


def blackman_window(window_length: int, periodic: bool = True, **options: Any) -> Any:
    return _old("blackman_window", windows.blackman, window_length, periodic, **options)


def bartlett_window(window_length: int, periodic: bool = True, **options: Any) -> Any:
    return _old("bartlett_window", windows.bartlett, window_length, periodic, **options)


def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    **options: Any,
) -> Any:
    return _old(
        "hamming_window",
        windows.general_cosine,
        window_length,
        periodic,
        a=[alpha, beta],
        **options,
    )


def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    **options: Any,
) -> Any:
    return _old("kaiser_window", windows.kaiser, window_length, periodic, beta=beta, **options)
