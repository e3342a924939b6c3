"""Which numbers or channels of a tensor a pruning method drops."""

from __future__ import annotations

import numbers
from typing import Any

from gradscope.runtime.core.rows.offered import FUNCTIONS
from gradscope.runtime.core.tensors.making.factories import zeros_like


def asked_amount(amount: Any) -> Any:
    """How much is to be pruned, if that is a count or a share."""
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    most = float("inf") if isinstance(amount, numbers.Integral) else 1
    if not 0 <= float(amount) <= most:
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
            "integer"
        )
    return amount


def within(amount: Any, tensor_size: int) -> None:
    """Refuse to prune more things than there are."""
    if isinstance(amount, numbers.Integral) and int(amount) > tensor_size:
        raise ValueError(
            f"amount={amount} should be smaller than the number of parameters to "
            f"prune={tensor_size}"
        )


def wanted_count(amount: Any, tensor_size: int) -> int:
    """An amount as a count of that many things."""
    return int(amount) if isinstance(amount, numbers.Integral) else round(amount * tensor_size)


def smallest(scores: Any, count: int, mask: Any, *, largest: bool = False) -> Any:
    """The mask, with zeros too where the lowest scores are (or the highest)."""
    made = mask.clone().contiguous()
    made.view(-1)[scores.reshape(-1).topk(count, largest=largest).indices] = 0
    return made


def kept_channels(mask: Any, dim: int) -> tuple[Any, ...]:
    """The index of the channels along `dim` of which a mask leaves anything."""
    dims = mask.dim()
    at = dim + dims if dim < 0 else dim
    if at < 0:
        raise IndexError(f"Index is out of bounds for tensor with dimensions {dims}")
    return _at(mask, at, mask.sum(dim=[d for d in range(dims) if d != at]) != 0)


def random_channels(t: Any, amount: Any, dim: int) -> Any:
    """A mask without so many channels, drawn by lot; None where all stay."""
    size = _channels(t, dim)
    within(amount, size)
    count = wanted_count(amount, size)
    if not count:
        return None
    lots = FUNCTIONS["rand"](size)
    return _ones_at(t, dim, lots > lots.kthvalue(count).values)


def strongest_channels(t: Any, amount: Any, n: Any, dim: int) -> Any:
    """A mask without so many channels, those of the smallest norms; None where all stay."""
    size = _channels(t, dim)
    within(amount, size)
    count = wanted_count(amount, size)
    others = [d for d in range(t.dim()) if d != dim % t.dim()]
    strongest = FUNCTIONS["norm"](t, p=n, dim=others).topk(size - count).indices
    return _ones_at(t, dim, strongest) if count else None


def _channels(t: Any, dim: int) -> int:
    """How many channels there are along `dim` of something that has channels."""
    if t.dim() <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of "
            f"shape {t.shape} with {t.dim()} dims"
        )
    if dim >= t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")
    return int(t.shape[dim])


def _ones_at(t: Any, dim: int, channels: Any) -> Any:
    made = zeros_like(t)
    made[_at(t, dim, channels)] = 1
    return made


def _at(t: Any, dim: int, channels: Any) -> tuple[Any, ...]:
    index: list[Any] = [slice(None)] * t.dim()
    index[dim] = channels
    return tuple(index)
