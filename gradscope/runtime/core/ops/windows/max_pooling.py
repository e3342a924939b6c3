"""Max pooling: max_pool1d to 3d, and its gradient."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from gradscope.runtime.core.calls.declare import (
    INTERNAL,
    LINEAR,
    family,
    jvp,
    op,
    outputs,
    tensors,
    w,
)
from gradscope.runtime.core.kernels.windows import pool, spans
from gradscope.runtime.core.ops.in_formulas import nn_alias, on_arrays
from gradscope.runtime.core.ops.index.gathering import zeros_of
from gradscope.runtime.core.ops.windows.pool_arguments import (
    check_counts,
    check_dims_between,
    check_outputs,
    check_positive,
    check_sizes,
    flat_last,
    ints,
    known_dtype,
    one_int,
    pooled_spans,
    spread,
    stride_ints,
)
from gradscope.runtime.core.rows.offered import function, nn_function
from gradscope.runtime.core.rows.traits import AS_CHANNELS
from gradscope.runtime.core.state.array_calls import layout_only
from gradscope.runtime.core.tensors.dims import text


def picked(grad, indices, dims):
    """The elements at flat positions in the planes of the last dims."""
    shape = tuple(indices.shape)
    if on_arrays(grad):
        flat = np.ascontiguousarray(grad).reshape(flat_last(grad.shape, dims))
        return np.take_along_axis(flat, indices.reshape(flat_last(shape, dims)), -1).reshape(shape)
    flat = grad.contiguous().view(flat_last(tuple(grad.shape), dims))
    return flat.gather(-1, indices.view(flat_last(shape, dims))).view(shape)


def picked_tangent(dims):
    """The tangent of the maxima: that of the selected elements."""

    def tangent(self_t, result1):
        return picked(self_t, result1, dims), None

    return jvp(tangent)


@lru_cache(512)
def _windows(shape, count, kernel_size, stride, padding, dilation, ceil_mode):
    """The windows over an input of this shape."""
    name = f"max_pool{count}d"
    check_counts(name, count, kernel_size, stride, padding, dilation)
    if len(shape) not in (count + 1, count + 2):
        raise RuntimeError(
            f"non-empty {count + 1}D or {count + 2}D (batch mode) tensor expected for input"
        )
    sizes = [spread(v, count) for v in (kernel_size, stride or kernel_size, padding, dilation)]
    found = pooled_spans(shape, sizes, ceil_mode)
    check_positive(sizes[0], sizes[1], sizes[3])
    check_sizes(f"{name}_with_indices_out_cpu_template", shape, count)
    check_outputs(shape, sizes, ceil_mode)
    return found


def _max_pool(count):
    def kernel(self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
        found = _windows(self.shape, count, kernel_size, stride, padding, dilation, ceil_mode)
        known_dtype(self, f"max_pool{count}d")
        return pool.max_pool(self, found)

    return kernel


def max_backward_row(count, name, forward):
    """The row of a gradient that goes to the positions of maxima."""
    return op(
        name,
        forward,
        LINEAR,
        INTERNAL,
        tensors("indices"),
        grad_output=lambda grad, indices: picked(grad, indices, count),
        self=lambda grad, self_shape: zeros_of(grad, self_shape),
    )


def _rows(count):
    name = f"max_pool{count}d_with_indices"
    back = f"{name}_backward"

    def backward(grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices):
        return pool.max_pool_backward(grad_output, indices, self.shape, count)

    forward = op(
        f"MaxPool{count}DWithIndicesBackward0",
        _max_pool(count),
        picked_tangent(count),
        AS_CHANNELS,
        INTERNAL,
        outputs("result0", "result1", without=("result1",)),
        self=lambda grad, self, kernel_size, stride, padding, dilation, ceil_mode, result1: getattr(
            w, back
        )(grad[0], self, kernel_size, stride, padding, dilation, ceil_mode, result1),
    )
    made = max_backward_row(count, f"MaxPool{count}DWithIndicesBackwardBackward0", backward)
    return {name: forward, back: made}


ROWS = {name: row for count in (2, 3) for name, row in _rows(count).items()}
globals().update(ROWS)
family(globals())


@layout_only
def _one_dim(input, given, ceil_mode):
    """Computed with two dims, the first of size one."""
    check_dims_between(input._array, "max_pool1d")
    kernel_size, stride, padding, dilation = given
    options = (kernel_size, stride or kernel_size, padding, dilation)
    names = ("kernel_size", "stride", "padding", "dilation")
    pairs = [
        (first, one_int(value, "max_pool1d", name))
        for first, value, name in zip((1, 1, 0, 1), options, names, strict=True)
    ]
    row = ROWS["max_pool2d_with_indices"]
    values, indices = row(input.unsqueeze(-2), *pairs, ceil_mode)
    return values.squeeze(-2), indices.squeeze(-2)


def _check_one_dim(array, given, ceil_mode):
    """PyTorch's checks of `max_pool1d` without indices."""
    if array.ndim not in (2, 3) or 0 in (array.shape[1:] if array.ndim == 3 else array.shape):
        raise RuntimeError(
            "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for "
            f"input, but got:{text(array.shape)}"
        )
    kernel_size, stride, padding, dilation = given
    size, step, pad, apart = (
        _single(word, value, says)
        for word, value, says in (
            ("kernel_size", kernel_size, "an int, list of ints or"),
            ("stride", stride or kernel_size, "None, an int, list of ints, or"),
            ("padding", padding, "an int, list of ints, or"),
            ("dilation", dilation, "an int, list of ints or"),
        )
    )
    for word, value in (("kernel_size", size), ("stride", step)):
        if value <= 0:
            raise RuntimeError(f"max_pool1d() {word} must be greater than zero, but got {value}")
    if pad < 0:
        raise RuntimeError(f"max_pool1d() padding must be non-negative, but got {pad}")
    if pad > size // 2:
        raise RuntimeError(
            "max_pool1d() padding should be at most half of kernel size, but got "
            f"padding={pad} and kernel_size={size}"
        )
    if apart <= 0:
        raise RuntimeError(f"max_pool1d() dilation must be greater than zero, but got {apart}")
    out = spans.pooled_size(array.shape[-1], size, step, pad, apart, ceil_mode)
    if out <= 0:
        raise RuntimeError(f"max_pool1d() Invalid computed output size: {out}")
    known_dtype(array, "max_pool1d_impl", "")


def _single(word, value, says):
    if len(value) != 1:
        raise RuntimeError(
            f"max_pool1d() {word} must be {says} tuple of ints of size 1 but got size {len(value)}"
        )
    return value[0]


def _given(name, count, kernel_size, stride, padding, dilation):
    return (
        ints(kernel_size, count, name, "kernel_size", 2),
        stride_ints(stride, count, name),
        ints(padding, count, name, "padding", 4),
        ints(dilation, count, name, "dilation", 5),
    )


def _functions(count):
    """The functions `max_pool` for this number of dims, without and with indices."""
    name = f"max_pool{count}d"

    def with_indices(
        input,
        kernel_size,
        stride=None,
        padding=0,
        dilation=1,
        ceil_mode=False,
        return_indices=False,
    ):
        given = _given(name, count, kernel_size, stride, padding, dilation)
        if count == 1:
            return _one_dim(input, given, ceil_mode)
        return ROWS[f"{name}_with_indices"](input, *given, ceil_mode)

    @layout_only
    def top(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
        if count == 1:
            given = _given(name, count, kernel_size, stride, padding, dilation)
            _check_one_dim(input._array, given, ceil_mode)
        made = with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)[0]
        return made if count > 1 or made.requires_grad else made.contiguous()

    def pooled(
        input,
        kernel_size,
        stride=None,
        padding=0,
        dilation=1,
        ceil_mode=False,
        return_indices=False,
    ):
        if return_indices:
            return with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
        return top(input, kernel_size, stride, padding, dilation, ceil_mode)

    for each, called in ((with_indices, f"{name}_with_indices"), (top, name), (pooled, name)):
        each.__name__ = each.__qualname__ = called
    return with_indices, top, pooled


for _count in (1, 2, 3):
    _with_indices, _top, _pooled = _functions(_count)
    nn_function(_with_indices)
    nn_alias(_pooled, _pooled.__name__)
    function(_top)
    if _count == 1:
        function(_with_indices)
