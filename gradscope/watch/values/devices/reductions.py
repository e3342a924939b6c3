"""The statistics of a tensor, computed on its device.

# Note [On the device]
A tensor on another device is measured by PyTorch's operations on that device, on the current stream
of the thread, after what the program has put there. None of them needs a result of another on the
CPU, so nothing waits: no indices are searched, and constants are Python numbers, which kernels
receive as arguments. Temporary tensors have at most LARGEST elements. Float16 and bfloat16 are
computed in float32; so are sums, in units of the largest absolute value, so that no square
overflows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gradscope.watch.values.statistics import StatisticsColumns

LARGEST = 1 << 22
"""Number of elements that are measured at once."""

WORKING: dict[Any, Any] = {
    torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.float32: torch.float32,
    torch.float64: torch.float64,
}  # fmt: skip
"""Dtypes that are measured, and the dtype that their statistics are computed in."""

NUMBERS = NAN, POSINF, NEGINF, ZERO, LOW, HIGH, UNIT, SUM, SQUARES = range(9)
"""What is computed of a part. `SUM` and `SQUARES`: of the finite elements, divided by `UNIT`."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def once(tensor: Any) -> tuple[Any, int]:
    """The tensor without the repetitions of expanded dims, and how often an element occurs."""
    times = 1
    for dim in reversed(range(tensor.dim())):
        if tensor.stride(dim) == 0 and tensor.size(dim) > 1:
            times *= tensor.size(dim)
            tensor = tensor.select(dim, 0)
    return tensor, times


def parts(tensor: Any) -> Iterator[Any]:
    """The tensor in views of at most LARGEST elements."""
    many = tensor.numel()
    if many <= LARGEST:
        yield tensor
        return
    sizes = list(tensor.shape)
    dim = sizes.index(max(sizes))
    step = max(LARGEST // (many // sizes[dim]), 1)
    for start in range(0, sizes[dim], step):
        yield from parts(tensor.narrow(dim, start, min(step, sizes[dim] - start)))


def put_numbers(part: Any, row: Any) -> None:
    """Compute the NUMBERS of a part, and write them to a row on its device."""
    kind = row.dtype
    given = part.to(kind)
    tiny, infinite = torch.finfo(kind).tiny, float("inf")
    counts = [
        wanted.sum(dtype=kind)
        for wanted in (given.ne(given), given.eq(infinite), given.eq(-infinite), given.eq(0))
    ]
    bad = given.mul(0).ne(0)
    finite = given.masked_fill(bad, infinite)
    low = finite.amin()
    high = finite.masked_fill_(bad, -infinite).amax()
    unit = torch.maximum(high, low.mul(-1)).clamp(min=tiny)
    scaled = finite.masked_fill_(bad, 0).div_(unit)
    total = scaled.sum()
    torch.stack([*counts, low, high, unit, total, scaled.mul_(scaled).sum()], out=row)


def joined(numbers: Floats, many: Ints, times: Ints, size: Ints) -> StatisticsColumns:
    """The statistics of tensors from the NUMBERS of their parts: the rows of one after another.

    `many`: number of parts of each tensor; `times`: how often each element occurs in it.
    """
    empty = many == 0
    nothing = np.zeros((int(empty.sum()), len(NUMBERS)))
    nothing[:, LOW], nothing[:, HIGH], nothing[:, UNIT] = np.inf, -np.inf, 1.0
    first = np.cumsum(many) - many
    numbers = np.insert(numbers, first[empty], nothing, axis=0)
    many = np.maximum(many, 1)
    first = np.cumsum(many) - many
    unit = np.maximum.reduceat(numbers[:, UNIT], first)
    share = numbers[:, UNIT] / np.repeat(unit, many)
    total = np.add.reduceat(numbers[:, SUM] * share, first)
    squares = np.add.reduceat(numbers[:, SQUARES] * share**2, first)
    counts = np.add.reduceat(numbers[:, : ZERO + 1], first).astype(np.int64) * times[:, None]
    nan, posinf, neginf, zero = counts.T
    finite = size - nan - posinf - neginf
    unknown, divisor = np.where(finite > 0, 0.0, np.nan), np.maximum(finite // times, 1)
    mean, rms = total / divisor * unit, np.sqrt(squares / divisor) * unit
    low, high = (
        np.minimum.reduceat(numbers[:, LOW], first),
        np.maximum.reduceat(numbers[:, HIGH], first),
    )
    return StatisticsColumns(
        size, nan, posinf, neginf, zero,
        np.where(finite > 0, low, np.nan), np.where(finite > 0, high, np.nan),
        mean + unknown, rms + unknown,
    )  # fmt: skip
