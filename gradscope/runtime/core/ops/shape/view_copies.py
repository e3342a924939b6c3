"""Copies of views: view_copy, select_copy, transpose_copy and others."""

from __future__ import annotations

from functools import wraps

import numpy as np

from gradscope.runtime.core.calls.declare import (
    FUNCTION_ONLY,
    IN_STORAGE,
    INTERNAL,
    LINEAR,
    METHOD_ONLY,
    REPLAYED,
    UNKNOWN,
    family,
    op,
    w,
)
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.ops.in_formulas import no_derivative
from gradscope.runtime.core.ops.shape import aliasing, axes, broadcasting, shape, slicing, splitting
from gradscope.runtime.core.rows.offered import both, function
from gradscope.runtime.core.rows.traits import Attaches

OF_VIEWS = {IN_STORAGE, INTERNAL, METHOD_ONLY, REPLAYED}
"""Traits of rows that only concern views and visibility."""


def _copying(kernel):
    """The kernel of a view, with its result, or each of them, copied."""

    @wraps(kernel)
    def copies(*args, **kwargs):
        made = kernel(*args, **kwargs)
        return [each.copy() for each in made] if isinstance(made, list) else made.copy()

    return copies


def _copy_of(view, node_name, kernel=None):
    """The row that copies a view: with the view's derivative, and its own node."""
    source = view.op
    kept = (t for t in source.traits if t not in OF_VIEWS and not isinstance(t, Attaches))
    derivatives = {
        name: formula.function
        for name, formula in zip(source.plan.differentiable, source.formulas, strict=True)
    }
    kernel = _copying(kernel or source.kernel)
    return op(node_name, kernel, LINEAR, FUNCTION_ONLY, *kept, **derivatives)


alias_copy = _copy_of(aliasing.alias, "AliasBackward0_copy")
as_strided_copy__default = _copy_of(slicing.as_strided__default, "AsStridedBackward0_copy")
_conj_copy__default = _copy_of(
    aliasing.conj__default, "ConjBackward0_copy", lambda self: np.conj(self)
)
diagonal_copy = _copy_of(slicing.diagonal, "DiagonalBackward0_copy")
expand_copy__default = _copy_of(broadcasting.expand__default, "ExpandBackward0_copy")
_neg_view_copy__default = _copy_of(aliasing._neg_view, "NegViewBackward0_copy")
permute_copy__default = _copy_of(axes.permute__default, "PermuteBackward0_copy")
select_copy__default = _copy_of(slicing.select, "SelectBackward0_copy")
slice_copy__default = _copy_of(slicing.slice__default, "SliceBackward0_copy")
split_copy = _copy_of(splitting.split__default, "SplitBackward0_copy")
split_with_sizes_copy__default = _copy_of(
    splitting.split_with_sizes, "SplitWithSizesBackward0_copy"
)
squeeze_copy__default = _copy_of(shape.squeeze__default, "SqueezeBackward0_copy")
squeeze_copy__dim = _copy_of(shape.squeeze__dim, "SqueezeBackward1_copy")
squeeze_copy__dims = _copy_of(shape.squeeze__dims, "SqueezeBackward2_copy")
t_copy = _copy_of(axes.t, "TBackward0_copy")
transpose_copy = _copy_of(axes.transpose, "TransposeBackward0_copy")
unbind_copy = _copy_of(splitting.unbind, "UnbindBackward0_copy")
unfold_copy = _copy_of(slicing.unfold, "UnfoldBackward0_copy")
unsqueeze_copy = _copy_of(shape.unsqueeze, "UnsqueezeBackward0_copy")
view_as_complex_copy__default = _copy_of(aliasing.view_as_complex, "ViewAsComplexBackward0_copy")
view_as_real_copy = _copy_of(aliasing.view_as_real, "ViewAsRealBackward0_copy")
view_copy__default = _copy_of(
    shape.view__default, "ViewBackward0_copy", lambda self, size: shape.reshaped(self, size)
)
_reshape_alias_copy__default = op(
    "ReshapeAliasBackward0_copy",
    lambda self, size, stride: slicing.as_strided__default.op.kernel(self, size, stride).copy(),
    LINEAR,
    INTERNAL,
    self=lambda grad, self_shape: grad.reshape(self_shape),
)
detach_copy = op(
    "NotImplemented",
    lambda self: self.copy(),
    UNKNOWN,
    FUNCTION_ONLY,
    self=no_derivative("detach_copy"),
)


def _narrowed(self, dim, start, length):
    return slicing._slice(self, dim, *slicing.window(self.shape, dim, start, length)).copy()


def _narrow_backward(grad, self_shape, dim, start, length):
    first, last = slicing.window(self_shape, dim, start, length)
    return w.slice_backward(grad, self_shape, dim, first, last, 1)


narrow_copy__default = op("NarrowCopyBackward0", _narrowed, LINEAR, self=_narrow_backward)
family(globals())


@function
def as_strided_copy(input, size, stride, storage_offset=None):
    where = slicing.geometry(input)
    return as_strided_copy__default(input, tuple(size), tuple(stride), storage_offset, where)


@function
def expand_copy(input, size, *, implicit=False):
    return expand_copy__default(input, tuple(size))


@both
def narrow_copy(input, dim, start, length):
    return narrow_copy__default(input, dim, slicing.start_of(start), length)


@function
def permute_copy(input, dims):
    return permute_copy__default(input, tuple(dims))


@function
def _reshape_alias_copy(input, size, stride):
    if len(size) != len(stride):
        raise RuntimeError(
            f"dimensionality of sizes ({len(size)}) must match dimensionality of strides "
            f"({len(stride)})"
        )
    return _reshape_alias_copy__default(input, tuple(size), tuple(stride))


@function
def split_with_sizes_copy(input, split_sizes, dim=0):
    return split_with_sizes_copy__default(input, tuple(split_sizes), dim)


@function
def squeeze_copy(input, dim=None):
    if dim is None:
        return squeeze_copy__default(input)
    if isinstance(dim, tuple | list):
        return squeeze_copy__dims(input, tuple(dim))
    return squeeze_copy__dim(input, dim)


@function
def view_copy(input, size=None, *, dtype=None):
    """A copy with other sizes, or of the same bytes as another dtype."""
    wanted = size if dtype is None else dtype
    if isinstance(wanted, dtypes.dtype):
        return input.detach().view(wanted).clone()
    return view_copy__default(input, tuple(wanted))


# -- without a gradient through complex numbers ---------------------------------------------------


def _real_where_recorded(made, name):
    if made.requires_grad and made.is_complex():
        raise RuntimeError(
            f"{name} does not support automatic differentiation for outputs with complex dtype."
        )
    return made


@function
def select_copy(input, dim, index):
    return _real_where_recorded(select_copy__default(input, dim, index), "select_copy")


@function
def slice_copy(input, dim=0, start=None, end=None, step=1):
    return _real_where_recorded(slice_copy__default(input, dim, start, end, step), "slice_copy")


@function
def view_as_complex_copy(input):
    return _real_where_recorded(view_as_complex_copy__default(input), "view_as_complex_copy")


@function
def _conj_copy(input):
    return _real_where_recorded(_conj_copy__default(input), "_conj_copy")


@function
def _neg_view_copy(input):
    return _real_where_recorded(_neg_view_copy__default(input), "_neg_view_copy")
