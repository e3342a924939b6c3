"""Converts a number to an element of a dtype, or raises."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from gradscope.runtime.core.errors.dtypes import overflow


def element(number: Any, kind: np.dtype[Any], *, by_double: bool = False) -> Any:
    """The number in this dtype. It is truncated; negative integers wrap in unsigned dtypes.

    `by_double`: convert to half precision by way of double, as PyTorch does for one element.
    """
    if number.__class__ is float and kind.char in "fd" and -1e38 < number < 1e38:
        return number
    if kind.kind == "b":
        return bool(number)
    if kind.kind == "c":
        return _complex(complex(number), kind)
    wide = by_double and kind.itemsize == 2 and kind.kind in "fV"
    target = np.dtype(np.float64) if wide else kind
    if isinstance(number, complex | np.complexfloating):
        if number.imag != 0:
            raise _overflow(target)
        number = number.real
    if kind.kind not in "iu":
        found = _float(number, target)
        return float(np.float32(found)) if kind.char == "e" else found  # see `fitting`
    if isinstance(number, float | np.floating) and not math.isfinite(number):
        raise _overflow(kind)
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    wraps = kind.kind == "u" and not isinstance(number, float | np.floating)
    if not (-high if wraps else low) <= number <= high:
        raise _overflow(kind)
    return int(number) % (high + 1) if kind.kind == "u" else int(number)


def _float(number: Any, kind: np.dtype[Any]) -> float:
    if math.isfinite(number) and abs(number) > float(ml_dtypes.finfo(kind).max):
        raise _overflow(kind)
    return float(number)


def _complex(number: complex, kind: np.dtype[Any]) -> complex:
    most = float(np.finfo(kind).max)
    for part in (number.real, number.imag):
        if math.isfinite(part) and abs(part) > most:
            raise _overflow(kind)
    return number


def _overflow(kind: np.dtype[Any]) -> RuntimeError:
    return overflow(np.empty(0, kind))
