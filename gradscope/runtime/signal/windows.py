"""Window functions, which taper a part of a signal at both ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradscope.runtime.core.devices import devices
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.kernels.special import bessel
from gradscope.runtime.core.state.settings import strided
from gradscope.runtime.core.tensors.making.factories import new_leaf

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


def _window(
    name: str, M: int, bell: Callable[[Any], Any], *, sym: bool, options: dict[str, Any]
) -> Any:
    """A window over -1 to 1 at M points; a periodic one omits the last point."""
    kind = options.pop("dtype", None) or dtypes.get_default_dtype()
    layout = options.pop("layout", None) or strided
    device = devices.check(options.pop("device", None))
    requires_grad = options.pop("requires_grad", False)
    if options:
        raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(options))}'")
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    if kind not in (dtypes.float32, dtypes.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {kind}")
    last = M - 1 if sym else M
    values = bell(np.arange(M) - last / 2) if M > 1 else np.ones(M)
    return new_leaf(np.asarray(values).astype(kind.numpy), requires_grad, device)


def _half(M: int, sym: bool) -> float:
    """The distance of the ends from the middle."""
    return max((M - 1 if sym else M) / 2, 0.5)


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, **options: Any
) -> Any:
    """Exponential decay on both sides of the center, by a factor of e every `tau`."""
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    moved = 0.0 if center is None else M / 2 - center

    def bell(x: Any) -> Any:
        return np.exp(-np.abs(x + moved) / tau)

    return _window("exponential", M, bell, sym=sym, options=options)


def cosine(M: int, *, sym: bool = True, **options: Any) -> Any:
    """Half a cosine wave."""
    width = M if sym else M + 1

    def bell(x: Any) -> Any:
        return np.sin(math.pi / width * (np.arange(len(x)) + 0.5))

    return _window("cosine", M, bell, sym=sym, options=options)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **options: Any) -> Any:
    """A normal density."""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    return _window("gaussian", M, lambda x: np.exp(-0.5 * (x / std) ** 2), sym=sym, options=options)


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **options: Any) -> Any:
    """The Kaiser window, based on the Bessel function I0."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    half = _half(M, sym)

    def bell(x: Any) -> Any:
        inside = np.sqrt(np.maximum(1 - (x / half) ** 2, 0.0))
        return bessel.i0(beta * inside) / bessel.i0(np.asarray(float(beta)))

    return _window("kaiser", M, bell, sym=sym, options=options)


def general_cosine(M: int, *, a: Sequence[float], sym: bool = True, **options: Any) -> Any:
    """A sum of cosines with these weights."""
    return _cosines("general_cosine", M, a, sym=sym, options=options)


def _cosines(name: str, M: int, a: Any, *, sym: bool, options: dict[str, Any]) -> Any:
    if not isinstance(a, Sequence) or isinstance(a, str):
        raise TypeError("Coefficients must be a list/tuple")
    if not a:
        raise ValueError("Coefficients cannot be empty")
    half = _half(M, sym)

    def bell(x: Any) -> Any:
        angles = math.pi * (x + half) / half
        return sum((-1) ** k * weight * np.cos(k * angles) for k, weight in enumerate(a))

    return _window(name, M, bell, sym=sym, options=options)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **options: Any) -> Any:
    """One cosine wave plus a constant."""
    return _cosines("general_cosine", M, [alpha, 1 - alpha], sym=sym, options=options)


def hamming(M: int, *, sym: bool = True, **options: Any) -> Any:
    return _cosines("general_cosine", M, [0.54, 0.46], sym=sym, options=options)


def hann(M: int, *, sym: bool = True, **options: Any) -> Any:
    return _cosines("general_cosine", M, [0.5, 0.5], sym=sym, options=options)


def blackman(M: int, *, sym: bool = True, **options: Any) -> Any:
    return _cosines("blackman", M, [0.42, 0.5, 0.08], sym=sym, options=options)


def nuttall(M: int, *, sym: bool = True, **options: Any) -> Any:
    weights = [0.3635819, 0.4891775, 0.1365995, 0.0106411]
    return _cosines("general_cosine", M, weights, sym=sym, options=options)


def bartlett(M: int, *, sym: bool = True, **options: Any) -> Any:
    """A triangle."""
    half = _half(M, sym)
    return _window("bartlett", M, lambda x: 1 - np.abs(x) / half, sym=sym, options=options)
