"""How far two arrays of floats are apart, in units in the last place."""

from __future__ import annotations

from typing import Any

import numpy as np


def ulps(ours: Any, theirs: Any) -> float:
    """The largest distance between two arrays; infinite where only one is NaN or infinite."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    equal = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    finite = np.isfinite(ours) & np.isfinite(theirs)
    if not np.all(equal | finite):
        return float("inf")
    different = finite & ~equal
    spacing = np.spacing(np.maximum(np.abs(theirs[different]), np.finfo(theirs.dtype).tiny))
    gap = np.abs(ours[different].astype(np.float64) - theirs[different].astype(np.float64))
    return float((gap / spacing).max(initial=0.0))


def samples(dtype: Any, *, seed: int = 0, count: int = 2000) -> np.ndarray[Any, Any]:
    """Numbers of many magnitudes and both signs, with the special ones among them."""
    rng = np.random.default_rng(seed)
    scales = (1e-6, 1e-2, 0.5, 2.0, 10.0, 100.0)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 0.5, 1.0, -1.0, 2.0, -2.0, -0.5, 17.0]
    values = [rng.normal(size=count) * scale for scale in scales]
    return np.concatenate([*values, special]).astype(dtype)
