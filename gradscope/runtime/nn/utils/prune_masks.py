"""Masks of pruning methods: which elements or channels they drop."""

from __future__ import annotations

import numbers
from typing import Any

from gradscope.runtime.core.rows.offered import FUNCTIONS
from gradscope.runtime.core.tensors.making.factories import zeros_like


def asked_amount(amount: Any) -> Any:
    """Check that an amount is a valid count or share."""
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
    """Refuse to prune more elements than there are."""
    if isinstance(amount, numbers.Integral) and int(amount) > tensor_size:
        raise ValueError(
            f"amount={amount} should be smaller than the number of parameters to "
            f"prune={tensor_size}"
        )


def wanted_count(amount: Any, tensor_size: int) -> int:
    """The amount as a count of elements."""
    return int(amount) if isinstance(amount, numbers.Integral) else round(amount * tensor_size)


def smallest(scores: Any, count: int, mask: Any, *, largest: bool = False) -> Any:
    """The mask with further zeros at the lowest scores (or the highest)."""
    made = mask.clone().contiguous()
    made.view(-1)[scores.reshape(-1).topk(count, largest=largest).indices] = 0
    return made


def kept_channels(mask: Any, dim: int) -> tuple[Any, ...]:
    """The index of the channels along `dim` that a mask does not drop entirely."""
    dims = mask.dim()
    at = dim + dims if dim < 0 else dim
    if at < 0:
        raise IndexError(f"Index is out of bounds for tensor with dimensions {dims}")
    return _at(mask, at, mask.sum(dim=[d for d in range(dims) if d != at]) != 0)


def random_channels(t: Any, amount: Any, dim: int) -> Any:
    """A mask that drops random channels; None if it drops none."""
    size = _channels(t, dim)
    within(amount, size)
    count = wanted_count(amount, size)
    if not count:
        return None
    lots = FUNCTIONS["rand"](size)
    return _ones_at(t, dim, lots > lots.kthvalue(count).values)


def strongest_channels(t: Any, amount: Any, n: Any, dim: int) -> Any:
    """A mask that drops the channels with the smallest norms; None if it drops none."""
    size = _channels(t, dim)
    within(amount, size)
    count = wanted_count(amount, size)
    others = [d for d in range(t.dim()) if d != dim % t.dim()]
    strongest = FUNCTIONS["norm"](t, p=n, dim=others).topk(size - count).indices
    return _ones_at(t, dim, strongest) if count else None


def _channels(t: Any, dim: int) -> int:
    """The number of channels along `dim`. Refuses tensors without channels."""
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
