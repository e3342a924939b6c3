"""The reductions of losses: none, mean, sum."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.runtime.core.state.warned import warn

NONE, MEAN, SUM = 0, 1, 2
NAMES = ("none", "mean", "sum")
add_reduce = np.add.reduce


def reduction_number(reduction: str, size_average: Any = None, reduce: Any = None) -> int:
    """PyTorch's number of a reduction, by its name or the two deprecated flags."""
    if size_average is not None or reduce is not None:
        reduction = _from_flags(size_average, reduce)
    if reduction not in NAMES:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return NAMES.index(reduction)


def _from_flags(size_average: Any, reduce: Any) -> str:
    averaged = size_average is None or size_average
    name = ("mean" if averaged else "sum") if reduce is None or reduce else "none"
    warn(f"size_average and reduce args will be deprecated, please use reduction='{name}' instead.")
    return name


def reduced(losses: Any, reduction: int) -> Any:
    """An array of losses, reduced."""
    if reduction == NONE:
        return losses
    total = np.asarray(add_reduce(losses, None))
    return total if reduction == SUM else total / losses.dtype.type(losses.size)


def reduced_tensor(losses: Any, reduction: int) -> Any:
    """A tensor of losses, reduced."""
    if reduction == NONE:
        return losses
    return losses.mean() if reduction == MEAN else losses.sum()


def shared(grad: Any, count: int, reduction: int) -> Any:
    """The gradient of one element's loss."""
    return grad / count if reduction == MEAN else grad
