"""`ReduceOp`: how a collective combines the values of ranks, and the same on arrays."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

import numpy as np


class RedOpType(IntEnum):
    """The reductions, with PyTorch's numbers."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"


class _Named(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, RedOpType)


class ReduceOp(metaclass=_Named):
    """The reductions by their names: `ReduceOp.SUM`."""

    __module__ = "torch.distributed.distributed_c10d"
    RedOpType = RedOpType
    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = RedOpType

    def __new__(cls, op: int) -> Any:
        return RedOpType(op)


BITWISE = (RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR)
OF_ORDER = (RedOpType.MIN, RedOpType.MAX, *BITWISE, RedOpType.PRODUCT)
"""Those that complex numbers do not have."""

_ON_ARRAYS: dict[RedOpType, Any] = {
    RedOpType.SUM: np.add, RedOpType.PRODUCT: np.multiply, RedOpType.MIN: np.minimum,
    RedOpType.MAX: np.maximum, RedOpType.BAND: np.bitwise_and, RedOpType.BOR: np.bitwise_or,
    RedOpType.BXOR: np.bitwise_xor,
}  # fmt: skip


def checked(op: Any, dtype: np.dtype[Any], name: str) -> RedOpType:
    """The reduction, if it is defined for this dtype; otherwise PyTorch's error."""
    if not isinstance(op, RedOpType):
        raise TypeError(f"{name}(): op must be a ReduceOp, not {type(op).__name__}")
    if op is RedOpType.PREMUL_SUM:
        raise RuntimeError(
            "gradscope's runtime has no ReduceOp.PREMUL_SUM (only NCCL does): multiply first"
        )
    if dtype.kind == "c" and op in OF_ORDER:
        raise ValueError(f"{name} does not support {op} on complex tensors")
    if op in BITWISE and dtype.kind not in "iub":
        raise RuntimeError(f"Cannot use ReduceOp.{op.name} with non-integral dtype")
    return op


def basic(op: RedOpType) -> RedOpType:
    """What is combined: an average is a sum that is divided afterwards."""
    return RedOpType.SUM if op is RedOpType.AVG else op


def combine(parts: Any, op: RedOpType) -> Any:
    """Arrays of all ranks, along the first dim, combined in the order of ranks."""
    function: Callable[..., Any] = _ON_ARRAYS[op]
    combined = parts[0].copy()
    for part in parts[1:]:
        function(combined, part, out=combined)
    return combined


def divide(flat: Any, op: RedOpType, size: int) -> None:
    """Divide a sum in place, for an average."""
    if op is RedOpType.AVG:
        if flat.dtype.kind in "iub":
            flat //= flat.dtype.type(size)
        else:
            flat /= flat.dtype.type(size)
