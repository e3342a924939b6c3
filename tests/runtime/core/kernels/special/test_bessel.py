"""Bessel functions against what is known of them, and PyTorch where its own are exact."""

from __future__ import annotations

import numpy as np
import pytest

from gradscope.runtime.core.kernels.special import bessel


def test_j_and_y_satisfy_their_wronskian() -> None:
    x = np.concatenate([np.geomspace(1e-3, 29, 80), np.linspace(30, 90, 60)])

    found = bessel.j1(x) * bessel.y0(x) - bessel.j0(x) * bessel.y1(x)

    np.testing.assert_allclose(found, 2 / (np.pi * x), rtol=1e-9)


def test_i_and_k_satisfy_their_wronskian() -> None:
    x = np.geomspace(1e-3, 300, 120)

    found = bessel.i0e(x) * bessel.k1e(x) + bessel.i1e(x) * bessel.k0e(x)

    np.testing.assert_allclose(found, 1 / x, rtol=1e-12)


def test_known_values() -> None:
    x = np.array([0.0, 6.0])

    np.testing.assert_allclose(bessel.j0(x), [1.0, 0.1506452572509969], rtol=1e-12)
    np.testing.assert_allclose(bessel.j1(x), [0.0, -0.2766838581275656], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(bessel.y0(x[1:]), [-0.2881946839815792], rtol=1e-12)
    np.testing.assert_allclose(bessel.y1(x[1:]), [-0.1750103443003983], rtol=1e-11)


@pytest.mark.torch
def test_far_from_zero_they_are_pytorchs() -> None:
    import torch

    x = np.linspace(10, 60, 101)
    for name in ("j0", "j1", "y0", "y1"):
        known = getattr(torch.special, f"bessel_{name}")(torch.from_numpy(x)).numpy()
        np.testing.assert_allclose(getattr(bessel, name)(x), known, rtol=1e-6, atol=1e-9)
