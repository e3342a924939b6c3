"""Small questions about arrays that a trace and its views share."""

from __future__ import annotations

import numpy as np

from gradscope.trace.ragged import Integers


def distinct(values: Integers) -> Integers:
    """Each value once, rising. Asked for values alone, `np.unique` first imports `numpy.ma`."""
    return np.unique(values, return_counts=True)[0]


def without(values: Integers, others: Integers) -> Integers:
    """Each of the values that is none of the others once, rising: `np.setdiff1d` without `ma`."""
    return distinct(values[~np.isin(values, others)])
