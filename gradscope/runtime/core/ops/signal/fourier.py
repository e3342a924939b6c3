"""The three basic Fourier transforms: complex to complex, from real, to real."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.runtime.core.calls.declare import BY_HAND, INTERNAL, LINEAR, family, op, w
from gradscope.runtime.core.ops.in_formulas import on_arrays
from gradscope.runtime.core.ops.shape.slicing import slice__default as slice_of
from gradscope.runtime.core.rows.layouts import ordered

NOT_SCALED, BY_ROOT, BY_COUNT = 0, 1, 2
"""PyTorch's numbers of normalizations, which nodes show."""
FORWARDS: Any = ("backward", "ortho", "forward")
BACKWARDS: Any = ("forward", "ortho", "backward")


def _complex_to_complex(self, dim, normalization, forward):
    if not dim:
        return self.copy()
    if forward:
        made = np.fft.fftn(self, axes=dim, norm=FORWARDS[normalization])
    else:
        made = np.fft.ifftn(self, axes=dim, norm=BACKWARDS[normalization])
    return _laid(made, self, _by_step(self, dim))


def _real_to_complex(self, dim, normalization, onesided):
    norm = FORWARDS[normalization]
    dims = [*_by_step(self, dim[:-1]), dim[-1]]
    if onesided:
        return _laid(np.fft.rfftn(self, axes=dim, norm=norm), self, dims)
    return _laid(np.fft.fftn(self, axes=dim, norm=norm), self, dims)


def _complex_to_real(self, dim, normalization, last_dim_size):
    sizes = [self.shape[d] for d in dim[:-1]]
    made = np.fft.irfftn(self, (*sizes, last_dim_size), dim, BACKWARDS[normalization])
    if len(dim) > 1:  # the last dim is transformed after the others
        self = _laid(self, self, _by_step(self, dim[:-1]))
    return _laid(made, self, dim[-1:])


def _by_step(array, dims):
    """Dims in the order of memory, slowest first."""
    return sorted(dims, key=lambda d: -array.strides[d])


def _laid(made, source, dims):
    """PyTorch's layout of a transform: batch dims first, in the source's order, then `dims`."""
    kept = {d % made.ndim for d in dims}
    batch = [d for d in range(made.ndim) if d not in kept]
    return ordered(made, [*_by_step(source, batch), *dims])


def _slope_of_real(grad, self, dim, normalization, onesided):
    """The gradient of the real input: mirrored elements are not doubled."""
    if onesided:
        grad = _half_of(grad, tuple(self.shape), dim[-1])
    return w._fft_c2c(grad, dim, normalization, False).real


def _half_of(grad, shape, last):
    """A gradient as the first half of a whole one, followed by zeros."""
    half = grad.shape[last]
    if shape[last] == half:
        return grad
    sizes = (*grad.shape[:last], shape[last], *grad.shape[last + 1 :])
    if on_arrays(grad):
        made = np.zeros(sizes, grad.dtype)
        made[(slice(None),) * last + (slice(half),)] = grad
        return made
    made = grad.new_zeros(sizes)
    slice_of(made, last, 0, half, 1).copy_(grad)
    return made


def _slope_of_complex(grad, dim, normalization):
    """The gradient of the half spectrum: its inner part also counts for the mirrored half."""
    made = w._fft_r2c(grad, dim, normalization, True)
    last = dim[-1]
    doubled = grad.shape[last] - made.shape[last]
    if doubled > 0:
        if on_arrays(made):
            made[(slice(None),) * last + (slice(1, 1 + doubled),)] *= 2
        else:
            made.narrow(last, 1, doubled).mul_(2)
    return made


_fft_c2c = op(
    "FftC2CBackward0",
    _complex_to_complex,
    LINEAR,
    BY_HAND,
    INTERNAL,
    self=lambda grad, dim, normalization, forward: w._fft_c2c(
        grad, dim, normalization, not forward
    ),
)
_fft_r2c = op("FftR2CBackward0", _real_to_complex, LINEAR, BY_HAND, INTERNAL, self=_slope_of_real)
_fft_c2r = op(
    "FftC2RBackward0", _complex_to_real, LINEAR, BY_HAND, INTERNAL, self=_slope_of_complex
)
family(globals())
