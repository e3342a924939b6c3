"""`torch.testing.make_tensor`: random tensors for tests, with the same values as PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod
from typing import Any

from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.dtypes.limits import finfo, iinfo
from gradscope.runtime.core.rows.offered import FUNCTIONS
from gradscope.runtime.core.state.warned import warn
from gradscope.runtime.core.tensors.making.factories import empty


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Any:
    """Uniform values of [low, high); without bounds small ones of either sign."""
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    exact = not (dtype.is_floating_point or dtype.is_complex)
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
            f"{noncontiguous=} and {memory_format=}"
        )
    if requires_grad and exact:
        raise ValueError(
            "`requires_grad=True` is not supported for boolean and integral dtypes, but got "
            f"{dtype=}"
        )
    with_holes = noncontiguous and prod(sizes) > 1
    room = (*sizes[:-1], 2 * sizes[-1]) if with_holes else sizes
    made = _drawn(room, dtype, device, _bounds(low, high, dtype, exact=exact), exact=exact)
    if with_holes:
        made = made[..., 1::2]
    elif memory_format is not None:
        made = made.clone(memory_format=memory_format)
    if exclude_zero:
        made[made == 0] = 1 if exact else finfo(dtype).tiny
    return made if exact else made.requires_grad_(requires_grad)


def _bounds(
    low: float | None, high: float | None, dtype: Any, *, exact: bool
) -> tuple[float, float]:
    """The given bounds, or default ones, within the limits of the dtype."""
    first, beyond, usual = _limits(dtype, exact=exact)
    low, high = usual[0] if low is None else low, usual[1] if high is None else high
    if math.isnan(low) or math.isnan(high):
        raise ValueError(f"`low` and `high` cannot be NaN, but got {low=} and {high=}")
    if low == high and not exact:
        warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is "
            "deprecated since 2.1 and will be removed in 2.3. Use `torch.full(...)` instead.",
            FutureWarning,
        )
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    elif high < first or low >= beyond:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), but {dtype} "
            f"only supports [{first}, {beyond})"
        )
    low, high = min(max(low, first), beyond), min(max(high, first), beyond)
    return (math.ceil(low), math.ceil(high)) if exact else (low, high)


def _limits(dtype: Any, *, exact: bool) -> tuple[float, float, tuple[int, int]]:
    """The lowest value of a dtype, the first one too high, and the default bounds."""
    if dtype is dtypes.bool_:
        return 0, 2, (0, 2)
    if exact:
        limits = iinfo(dtype)
        return limits.min, limits.max + (dtype is not dtypes.int64), (-9, 10)
    return finfo(dtype).min, finfo(dtype).max, (-9, 9)


def _drawn(
    shape: Sequence[int], dtype: Any, device: Any, bounds: tuple[float, float], *, exact: bool
) -> Any:
    low, high = bounds
    if exact:
        return FUNCTIONS["randint"](int(low), int(high), shape, device=device, dtype=dtype)
    made = empty(shape, device=device, dtype=dtype)
    numbers = FUNCTIONS["view_as_real"](made) if dtype.is_complex else made
    if high - low >= finfo(dtype).max:
        numbers.uniform_(low / 2, high / 2).mul_(2)
    else:
        numbers.uniform_(low, high)
    return made
