"""Triangles and diagonals of matrices."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import LINEAR, Memory, family, inplace, op, w
from gradscope.runtime.core.devices import devices
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.ops.shape.view_copies import diagonal_copy
from gradscope.runtime.core.rows.offered import both, function
from gradscope.runtime.core.rows.traits import ROW_BY_ROW
from gradscope.runtime.core.tensors.dims import wrapped
from gradscope.runtime.core.tensors.making.factories import new_leaf


def _triangle(name, part):
    def kernel(self, diagonal=0):
        if self.ndim < 2:
            raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
        return part(self, diagonal)

    return kernel


tril = op(
    "TrilBackward0",
    _triangle("tril", np.tril),
    LINEAR,
    ROW_BY_ROW,
    self=lambda grad, diagonal: w.tril(grad, diagonal),
)
triu = op(
    "TriuBackward0",
    _triangle("triu", np.triu),
    LINEAR,
    ROW_BY_ROW,
    self=lambda grad, diagonal: w.triu(grad, diagonal),
)
tril_ = inplace(tril, memory=Memory(repeated=""))
triu_ = inplace(triu, memory=Memory(repeated=""))


def _diag_embed(self, offset=0, dim1=-2, dim2=-1):
    first, second = wrapped(dim1, self.ndim + 1), wrapped(dim2, self.ndim + 1)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    size = self.shape[-1] + abs(offset)
    shape = list(self.shape[:-1])
    for dim in sorted((first, second)):
        shape.insert(dim, size)
    made = np.zeros(shape, self.dtype)
    line = made.diagonal(offset, first, second)
    line.flags.writeable = True
    line[...] = self
    return made


diag_embed = op(
    "DiagEmbedBackward0",
    _diag_embed,
    LINEAR,
    self=lambda grad, offset, dim1, dim2: grad.diagonal(offset, dim1, dim2),
)
family(globals())


@both
def diag(input, diagonal=0):
    """A vector as the diagonal of a matrix, or the diagonal of a matrix as a vector."""
    if input.dim() == 1:
        return diag_embed(input, diagonal)
    if input.dim() == 2:
        return diagonal_copy(input, diagonal)
    raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.dim()}D")


@both
def diagflat(input, offset=0):
    return diag_embed(input.contiguous().view(-1), offset)


@function
def tril_indices(row, col, offset=0, *, dtype=dtypes.int64, device=None, layout=None):
    """The indices of the lower triangle, row by row."""
    places = np.stack(np.tril_indices(row, offset, col)).astype(dtype.numpy)
    return new_leaf(places, device=devices.check(device))


@function
def triu_indices(row, col, offset=0, *, dtype=dtypes.int64, device=None, layout=None):
    """The indices of the upper triangle, row by row."""
    places = np.stack(np.triu_indices(row, offset, col)).astype(dtype.numpy)
    return new_leaf(places, device=devices.check(device))
