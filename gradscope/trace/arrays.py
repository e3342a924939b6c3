"""Small functions on arrays, shared by traces and views."""

from __future__ import annotations

import numpy as np

from gradscope.trace.ragged import Integers


def distinct(values: Integers) -> Integers:
    """Each value once, in rising order. `np.unique` would import `numpy.ma` for this."""
    return np.unique(values, return_counts=True)[0]


def without(values: Integers, others: Integers) -> Integers:
    """Like `np.setdiff1d`, without importing `numpy.ma`: each value not among the others, once."""
    return distinct(values[~np.isin(values, others)])
