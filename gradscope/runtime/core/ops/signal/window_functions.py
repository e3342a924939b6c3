"""Window functions: hann_window, hamming_window and others."""

from __future__ import annotations

import math

import numpy as np

from gradscope.runtime.core.devices import devices
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.rows.offered import function
from gradscope.runtime.core.tensors.making.factories import new_leaf


def _window(name, length, periodic, shape, options):
    """`shape` over values from 0 to 1; a periodic window is one longer, without its end."""
    dtype, device, requires_grad = options
    kind = dtypes.get_default_dtype() if dtype is None else dtype
    if not (kind.is_floating_point or kind.is_complex):
        raise RuntimeError(f"{name}({length}): expected floating point or complex dtypes")
    if length < 0:
        raise RuntimeError(
            f"{name} requires non-negative window_length, got window_length={length}"
        )
    if length == 1:
        values = np.ones(1)
    else:
        count = length + bool(periodic)
        values = shape(np.arange(count) / max(count - 1, 1))[:length]
    return new_leaf(values.astype(kind.numpy), requires_grad, devices.check(device))


@function
def hann_window(
    window_length, periodic=True, *, dtype=None, layout=None, device=None, requires_grad=False
):
    """A raised cosine that is zero at both ends."""
    return _window(
        "hann_window",
        window_length,
        periodic,
        lambda x: 0.5 - 0.5 * np.cos(2 * math.pi * x),
        (dtype, device, requires_grad),
    )


@function
def hamming_window(
    window_length,
    periodic=True,
    alpha=0.54,
    beta=0.46,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
):
    """A raised cosine that is almost zero at both ends."""
    return _window(
        "hamming_window",
        window_length,
        periodic,
        lambda x: alpha - beta * np.cos(2 * math.pi * x),
        (dtype, device, requires_grad),
    )


@function
def blackman_window(
    window_length, periodic=True, *, dtype=None, layout=None, device=None, requires_grad=False
):
    """A sum of two cosines."""
    return _window(
        "blackman_window",
        window_length,
        periodic,
        lambda x: 0.42 - 0.5 * np.cos(2 * math.pi * x) + 0.08 * np.cos(4 * math.pi * x),
        (dtype, device, requires_grad),
    )


@function
def bartlett_window(
    window_length, periodic=True, *, dtype=None, layout=None, device=None, requires_grad=False
):
    """A triangle."""
    return _window(
        "bartlett_window",
        window_length,
        periodic,
        lambda x: 1 - np.abs(2 * x - 1),
        (dtype, device, requires_grad),
    )


@function
def kaiser_window(
    window_length,
    periodic=True,
    beta=12.0,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
):
    """The Kaiser window, which trades the width of its peak for the height of side lobes."""
    return _window(
        "kaiser_window",
        window_length,
        periodic,
        lambda x: np.i0(beta * np.sqrt(np.maximum(0, 1 - (2 * x - 1) ** 2))) / np.i0(beta),
        (dtype, device, requires_grad),
    )
