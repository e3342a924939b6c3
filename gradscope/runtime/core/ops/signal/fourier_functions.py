"""The functions of torch.fft, composed of operations as in PyTorch."""

from __future__ import annotations

import math

import numpy as np

from gradscope.runtime.core.calls.extra_arguments.out import written
from gradscope.runtime.core.devices import devices
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.kernels.support import HALVES
from gradscope.runtime.core.ops.pointwise.complexes import conj_physical
from gradscope.runtime.core.ops.shape.copies import roll
from gradscope.runtime.core.ops.shape.padding import constant_pad_nd
from gradscope.runtime.core.ops.shape.slicing import slice__default as slice_of
from gradscope.runtime.core.ops.signal.fourier import (
    BY_COUNT,
    BY_ROOT,
    NOT_SCALED,
    _fft_c2c,
    _fft_c2r,
    _fft_r2c,
)
from gradscope.runtime.core.rows.offered import FUNCTIONS
from gradscope.runtime.core.tensors.dims import wrapped
from gradscope.runtime.core.tensors.making import factories


def _scaling(norm, *, forward):
    if norm is None or norm == "backward":
        return NOT_SCALED if forward else BY_COUNT
    if norm == "forward":
        return BY_COUNT if forward else NOT_SCALED
    if norm == "ortho":
        return BY_ROOT
    raise RuntimeError(f'Invalid normalization mode: "{norm}"')


def _prepared(input, *, complex):
    """The input in a dtype that has a transform."""
    kind = input.dtype
    if not (kind.is_floating_point or kind.is_complex):
        kind = dtypes.get_default_dtype()
    if kind.numpy in HALVES or kind is dtypes.complex32:
        raise RuntimeError(f"Unsupported dtype {kind.scalar_name}")
    if complex:
        kind = kind.to_complex()
    return input if input.dtype is kind else input.to(kind)


def _dim_of(input, dim):
    if not input.dim():
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return wrapped(dim, input.dim())


def _check_count(count):
    if count < 1:
        raise RuntimeError(f"Invalid number of data points ({count}) specified")


def _resized(input, dims, counts):
    """Truncate, or pad with zeros, along each of these dims."""
    ndim = input.dim()
    missing = [0] * (2 * ndim)
    for dim, count in zip(dims, counts, strict=True):
        size = input._array.shape[dim]
        if count == -1:
            continue
        if count < size:
            input = slice_of(input, dim, 0, count, 1)
        missing[2 * (ndim - dim) - 1] = max(count - size, 0)
    return constant_pad_nd(input, tuple(missing)) if any(missing) else input


def _one_dim(name, input, n, dim, norm, *, forward, out):
    """`fft` and `ifft`; for real input by the special operation."""
    was_complex = input.dtype.is_complex
    input = _prepared(input, complex=was_complex)
    dim = _dim_of(input, dim)
    count = input._array.shape[dim] if n is None else n
    _check_count(count)
    if n is not None:
        input = _resized(input, (dim,), (n,))
    scaling = _scaling(norm, forward=forward)
    if was_complex:
        return written(f"fft_{name}", _fft_c2c(input, (dim,), scaling, forward), out)
    made = _fft_r2c(input, (dim,), scaling, False)
    return written(f"fft_{name}", made if forward else made.conj(), out)


def _from_real(name, input, n, dim, norm, *, forward, out):
    """`rfft` and `ihfft`."""
    if input.dtype.is_complex:
        kind = input.dtype.scalar_name
        raise RuntimeError(f"{name} expects a real input tensor, but got {kind}")
    input = _prepared(input, complex=False)
    dim = _dim_of(input, dim)
    _check_count(input._array.shape[dim] if n is None else n)
    if n is not None:
        input = _resized(input, (dim,), (n,))
    made = _fft_r2c(input, (dim,), _scaling(norm, forward=forward), True)
    return written(f"fft_{name}", made if forward else made.conj(), out)


def _to_real(name, input, n, dim, norm, *, forward, out):
    """`irfft` and `hfft`."""
    input = _prepared(input, complex=True)
    dim = _dim_of(input, dim)
    count = 2 * (input._array.shape[dim] - 1) if n is None else n
    _check_count(count)
    if n is not None:
        input = _resized(input, (dim,), (n // 2 + 1,))
    scaling = _scaling(norm, forward=forward)
    made = _fft_c2r(input.conj() if forward else input, (dim,), scaling, count)
    return written(f"fft_{name}", made, out)


def _sizes_and_dims(input, s, dim):
    ndim = input.dim()
    dims = None
    if dim is not None:
        dims = tuple(_dim_of(input, d) for d in ((dim,) if isinstance(dim, int) else dim))
        if len(set(dims)) < len(dims):
            raise RuntimeError("FFT dims must be unique")
    if s is not None:
        s = (s,) if isinstance(s, int) else tuple(s)
        if dims is not None and len(dims) != len(s):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
        if len(s) > ndim:
            raise RuntimeError(
                f"Got shape with {len(s)} values but input tensor only has {ndim} dimensions."
            )
        if dims is None:
            dims = tuple(range(ndim - len(s), ndim))
    elif dims is None:
        dims = tuple(range(ndim))
    shape = input._array.shape
    counts = [shape[d] for d in dims]
    if s is not None:
        counts = [shape[d] if n == -1 else n for d, n in zip(dims, s, strict=True)]
    for count in counts:
        _check_count(count)
    return counts, dims


def _many_dims(name, input, s, dim, norm, *, forward, out):
    counts, dims = _sizes_and_dims(input, s, dim)
    input = _resized(_prepared(input, complex=True), dims, counts)
    made = _fft_c2c(input, dims, _scaling(norm, forward=forward), forward)
    return written(f"fft_{name}", made, out)


def _not_none(name, dims):
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")


def _half_sizes(name, input, s, dim):
    """Sizes with the last one halved, dims, and the final last size."""
    counts, dims = _sizes_and_dims(input, s, dim)
    _not_none(name, dims)
    whole = not s or (s if isinstance(s, int) else s[-1]) == -1
    last = 2 * (input._array.shape[dims[-1]] - 1) if whole else counts[-1]
    _check_count(last)
    counts[-1] = last // 2 + 1
    return counts, dims, last


def _rfftn(name, input, s, dim, norm, out):
    if input.dtype.is_complex:
        kind = input.dtype.scalar_name
        raise RuntimeError(f"rfftn expects a real-valued input tensor, but got {kind}")
    input = _prepared(input, complex=False)
    counts, dims = _sizes_and_dims(input, s, dim)
    _not_none("rfftn", dims)
    made = _fft_r2c(_resized(input, dims, counts), dims, _scaling(norm, forward=True), True)
    return written(f"fft_{name}", made, out)


def _irfftn(name, input, s, dim, norm, out):
    counts, dims, last = _half_sizes("irfftn", input, s, dim)
    input = _resized(_prepared(input, complex=True), dims, counts)
    made = _fft_c2r(input, dims, _scaling(norm, forward=False), last)
    return written(f"fft_{name}", made, out)


def _hfftn(name, input, s, dim, norm, out):
    counts, dims, last = _half_sizes("hfftn", input, s, dim)
    input = _resized(_prepared(input, complex=True), dims, counts)
    scaling = _scaling(norm, forward=True)
    if len(dims) > 1:
        input = _fft_c2c(input, dims[:-1], scaling, True)
    return written(f"fft_{name}", _fft_c2r(input.conj(), dims[-1:], scaling, last), out)


def _ihfftn(name, input, s, dim, norm, out):
    if input.dtype.is_complex:
        kind = input.dtype.scalar_name
        raise RuntimeError(f"Only supports floating-point dtypes, but found: {kind}")
    input = _prepared(input, complex=False)
    counts, dims = _sizes_and_dims(input, s, dim)
    _not_none("ihfftn", dims)
    scaling = _scaling(norm, forward=False)
    made = _fft_r2c(_resized(input, dims, counts), dims[-1:], scaling, True)
    if len(dims) == 1:
        return written(f"fft_{name}", made.conj(), out)
    made = _fft_c2c(conj_physical(made), dims[:-1], scaling, False)
    return written(f"fft_{name}", made, out)


def fft(input, n=None, dim=-1, norm=None, *, out=None):
    """The Fourier transform along one dim."""
    return _one_dim("fft", input, n, dim, norm, forward=True, out=out)


def ifft(input, n=None, dim=-1, norm=None, *, out=None):
    """The inverse of `fft`."""
    return _one_dim("ifft", input, n, dim, norm, forward=False, out=out)


def rfft(input, n=None, dim=-1, norm=None, *, out=None):
    """The first half of the transform of real input; the other half mirrors it."""
    return _from_real("rfft", input, n, dim, norm, forward=True, out=out)


def irfft(input, n=None, dim=-1, norm=None, *, out=None):
    """The inverse of `rfft`."""
    return _to_real("irfft", input, n, dim, norm, forward=False, out=out)


def hfft(input, n=None, dim=-1, norm=None, *, out=None):
    """The transform of a signal whose second half mirrors the given first half."""
    return _to_real("hfft", input, n, dim, norm, forward=True, out=out)


def ihfft(input, n=None, dim=-1, norm=None, *, out=None):
    """The inverse of `hfft`."""
    return _from_real("ihfft", input, n, dim, norm, forward=False, out=out)


def fftn(input, s=None, dim=None, norm=None, *, out=None):
    return _many_dims("fftn", input, s, dim, norm, forward=True, out=out)


def ifftn(input, s=None, dim=None, norm=None, *, out=None):
    return _many_dims("ifftn", input, s, dim, norm, forward=False, out=out)


def fft2(input, s=None, dim=(-2, -1), norm=None, *, out=None):
    return _many_dims("fft2", input, s, dim, norm, forward=True, out=out)


def ifft2(input, s=None, dim=(-2, -1), norm=None, *, out=None):
    return _many_dims("ifft2", input, s, dim, norm, forward=False, out=out)


def rfftn(input, s=None, dim=None, norm=None, *, out=None):
    return _rfftn("rfftn", input, s, dim, norm, out)


def rfft2(input, s=None, dim=(-2, -1), norm=None, *, out=None):
    return _rfftn("rfft2", input, s, dim, norm, out)


def irfftn(input, s=None, dim=None, norm=None, *, out=None):
    return _irfftn("irfftn", input, s, dim, norm, out)


def irfft2(input, s=None, dim=(-2, -1), norm=None, *, out=None):
    return _irfftn("irfft2", input, s, dim, norm, out)


def hfftn(input, s=None, dim=None, norm=None, *, out=None):
    return _hfftn("hfftn", input, s, dim, norm, out)


def hfft2(input, s=None, dim=(-2, -1), norm=None, *, out=None):
    return _hfftn("hfft2", input, s, dim, norm, out)


def ihfftn(input, s=None, dim=None, norm=None, *, out=None):
    return _ihfftn("ihfftn", input, s, dim, norm, out)


def ihfft2(input, s=None, dim=(-2, -1), norm=None, *, out=None):
    return _ihfftn("ihfft2", input, s, dim, norm, out)


def fftshift(input, dim=None):
    """Move the zero frequency to the middle."""
    dims = _shifted_dims(input, dim)
    return roll(input, tuple(input._array.shape[d] // 2 for d in dims), dims)


def ifftshift(input, dim=None):
    """Move the zero frequency to the start."""
    dims = _shifted_dims(input, dim)
    return roll(input, tuple((input._array.shape[d] + 1) // 2 for d in dims), dims)


def _shifted_dims(input, dim):
    if dim is None:
        return tuple(range(input.dim()))
    return tuple(wrapped(d, input.dim()) for d in ((dim,) if isinstance(dim, int) else dim))


def _frequencies(name, n, numbers, d, dtype, options):
    kind = dtypes.get_default_dtype() if dtype is None else dtype
    if not (kind.is_floating_point or kind.is_complex):
        raise RuntimeError(f"{name} requires a floating point or complex dtype")
    device, requires_grad, out = options
    step = 1 / (n * d) if n * d else math.inf
    with np.errstate(invalid="ignore"):
        array = np.asarray(numbers).astype(kind.numpy) * np.asarray(step, kind.numpy)
    made = factories.new_leaf(array, requires_grad, devices.check(device))
    return written(f"fft_{name}", made, out)


def fftfreq(n, d=1.0, *, out=None, dtype=None, layout=None, device=None, requires_grad=False):
    """The frequency of each element of `fft`."""
    half = (n + 1) // 2
    numbers = [*range(half), *range(half - n, 0)]
    return _frequencies("fftfreq", n, numbers, d, dtype, (device, requires_grad, out))


def rfftfreq(n, d=1.0, *, out=None, dtype=None, layout=None, device=None, requires_grad=False):
    """The frequency of each element of `rfft`."""
    return _frequencies("rfftfreq", n, range(n // 2 + 1), d, dtype, (device, requires_grad, out))


FUNCTIONS.update({
    f"fft.{made.__name__}": made
    for made in (
        fft, ifft, rfft, irfft, hfft, ihfft, fftn, ifftn, fft2, ifft2, rfftn, rfft2, irfftn,
        irfft2, hfftn, hfft2, ihfftn, ihfft2, fftshift, ifftshift, fftfreq, rfftfreq,
    )
})  # fmt: skip
