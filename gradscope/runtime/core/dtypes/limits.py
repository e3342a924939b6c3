"""Limits of dtypes: `torch.finfo` and `torch.iinfo`."""

from __future__ import annotations

from typing import Final

import ml_dtypes
import numpy as np

from gradscope.runtime.core.dtypes.dtypes import bool_, dtype, get_default_dtype


class finfo:  # noqa: N801 -- PyTorch's name
    """The limits of a floating-point dtype, or of a complex dtype's parts."""

    __slots__ = ("bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny")

    def __init__(self, kind: dtype | None = None) -> None:
        kind = get_default_dtype() if kind is None else kind
        if not (kind.is_floating_point or kind.is_complex):
            raise TypeError(
                "torch.finfo() requires a floating point input type. "
                "Use torch.iinfo to handle 'torch.finfo'"
            )
        real = kind.to_real()
        limits = ml_dtypes.finfo(real.numpy)
        self.bits: Final = int(limits.bits)
        self.eps: Final = float(limits.eps)
        self.max: Final = float(limits.max)
        self.min: Final = float(limits.min)
        self.tiny: Final = float(limits.smallest_normal)
        self.smallest_normal: Final = self.tiny
        # From the digits: 10**-precision rounds differently from the decimal literal.
        self.resolution: Final = float(f"1e-{int(limits.precision)}")
        self.dtype: Final = real.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and self.dtype == other.dtype

    __hash__ = None  # type: ignore[assignment]  # as PyTorch's

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, "
            f"dtype={self.dtype})"
        )


class iinfo:  # noqa: N801 -- PyTorch's name
    """The limits of an integral dtype."""

    __slots__ = ("bits", "dtype", "max", "min")

    def __init__(self, kind: dtype) -> None:
        if kind.is_floating_point or kind.is_complex:
            raise TypeError(
                "torch.iinfo() requires an integer input type. "
                "Use torch.finfo to handle 'torch.iinfo'"
            )
        if kind is bool_:
            raise TypeError("torch.bool is not supported by torch.iinfo")
        limits = np.iinfo(kind.numpy)
        self.bits: Final = limits.bits
        self.max: Final = limits.max
        self.min: Final = limits.min
        self.dtype: Final = kind.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype

    __hash__ = None  # type: ignore[assignment]  # as PyTorch's

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
