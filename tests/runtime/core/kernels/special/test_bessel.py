"""Bessel functions against what is known of them, and PyTorch's own J and Y."""

from __future__ import annotations

import numpy as np
import pytest

from gradscope.runtime.core.kernels.special import bessel, bessel_j_y

KNOWN = {
    "j0": [0.15064520026735478, 1.0, -0.20973833620591686, 0.15064520026735478],
    "j1": [0.27668378727623044, 0.0, -0.3146946753606358, -0.27668378727623044],
    "y0": [np.nan, -np.inf, -0.29205460404698097, -0.2881947152758129],
    "y1": [np.nan, -np.inf, 0.18124669915853284, -0.1750104733135312],
}


def test_j_and_y_satisfy_their_wronskian_as_far_as_pytorchs_do() -> None:
    x = np.concatenate([np.geomspace(1e-3, 29, 80), np.linspace(30, 90, 60)])

    found = bessel_j_y.j1(x) * bessel_j_y.y0(x) - bessel_j_y.j0(x) * bessel_j_y.y1(x)

    np.testing.assert_allclose(found, 2 / (np.pi * x), rtol=1e-5)


def test_i_and_k_satisfy_their_wronskian() -> None:
    x = np.geomspace(1e-3, 300, 120)

    found = bessel.i0e(x) * bessel.k1e(x) + bessel.i1e(x) * bessel.k0e(x)

    np.testing.assert_allclose(found, 1 / x, rtol=1e-12)


def test_values_where_pytorchs_are_wrong_from_the_sixth_digit_on() -> None:
    """See Note [The highest power is left out]; as PyTorch 2.13 says them."""
    x = np.array([-6.0, 0.0, 4.9, 6.0])

    for name, known in KNOWN.items():
        np.testing.assert_allclose(getattr(bessel_j_y, name)(x), known, rtol=1e-13)


@pytest.mark.torch
def test_they_are_pytorchs_everywhere() -> None:
    import torch

    x = np.concatenate([[np.nan, np.inf, -np.inf, 0.0, 5e-6], np.linspace(-60, 60, 501)])
    for dtype, near in ((np.float64, 1e-14), (np.float32, 1e-6)):
        given = x.astype(dtype)
        for name in ("j0", "j1", "y0", "y1"):
            known = getattr(torch.special, f"bessel_{name}")(torch.from_numpy(given)).numpy()
            found = getattr(bessel_j_y, name)(given)
            assert found.dtype == known.dtype
            np.testing.assert_allclose(found, known, rtol=near, atol=near)
