"""A product and a sum rounded once, as with the fused multiply-add of PyTorch's kernels.

If the result is floored next, the last bit matters: an identity grid has all points on integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def multiply_add(number: Array, few: Array, added: Array) -> Array:
    """Number * few + added, where `few` has at most 26 bits (a count, or half of one)."""
    number, few, added = np.asarray(number), np.asarray(few), np.asarray(added)
    kind = np.result_type(number, few, added)
    if kind == np.float32:
        made: Array = number.astype(np.float64) * few + added
        return made.astype(kind)
    if kind != np.float64:
        plain: Array = number * few + added
        return plain
    # A float64 is split in two, whose products are exact. The sum's rounding error is added at the
    # end.
    high = (number.view(np.int64) & np.int64(-1 << 27)).view(np.float64)
    product = number * few
    lost = (high * few - product) + (number - high) * few
    total = product + added
    of_product = total - added
    lost = lost + (added - (total - of_product)) + (product - of_product)
    return np.where(np.isfinite(lost), total + lost, total)
