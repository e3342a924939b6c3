"""Average pooling: avg_pool1d to 3d, and lp_pool."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from gradscope.runtime.core.calls.declare import INTERNAL, LINEAR, family, op
from gradscope.runtime.core.calls.extra_arguments.out import written
from gradscope.runtime.core.errors.dtypes import unknown_dtype
from gradscope.runtime.core.kernels.support import HALVES
from gradscope.runtime.core.kernels.windows import pool
from gradscope.runtime.core.ops.in_formulas import handed_on, named, nn_alias
from gradscope.runtime.core.ops.index.gathering import zeros_of
from gradscope.runtime.core.ops.windows.pool_arguments import (
    check_counts,
    check_dims_between,
    check_outputs,
    check_positive,
    check_sizes,
    ints,
    known_dtype,
    one_int,
    pooled_spans,
    spread,
    stride_ints,
)
from gradscope.runtime.core.rows.offered import NN_FUNCTIONS, function, nn_function
from gradscope.runtime.core.rows.traits import AS_CHANNELS
from gradscope.runtime.core.state.array_calls import layout_only
from gradscope.runtime.core.tensors.dims import wrapped

WHOLE_NUMBERS = np.dtype(np.int64)


@lru_cache(512)
def _windows(
    shape, count, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
):
    """The windows over an input of this shape."""
    name = f"avg_pool{count}d"
    check_counts(name, count, kernel_size, stride, padding, average=True)
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    if count == 2:
        wrapped(-3, len(shape))
    elif len(shape) not in (4, 5):
        raise RuntimeError("non-empty 4D or 5D (batch mode) tensor expected for input")
    given = (kernel_size, stride or kernel_size, padding, (1,))
    sizes = [spread(value, count) for value in given]
    found = pooled_spans(shape, sizes, ceil_mode, count_include_pad)
    check_positive(sizes[0], sizes[1], (1,) * count)
    check_sizes(name, shape, count)
    if count == 3:
        _check_kernel_fits(shape, sizes[0])
    check_outputs(shape, sizes, ceil_mode)
    return found


def _check_kernel_fits(shape, kernel_size):
    if all(kernel <= size for size, kernel in zip(shape[-3:], kernel_size, strict=True)):
        return
    image, kernel = (
        " ".join(f"{letter}{axis}: {n}" for axis, n in zip("THW", sizes, strict=True))
        for letter, sizes in (("", shape[-3:]), ("k", kernel_size))
    )
    raise RuntimeError(f"input image ({image}) smaller than kernel size ({kernel})")


def _avg_pool(count):
    unknown = "avg_pool2d" if count == 2 else "avg_pool3d_out_frame"

    def kernel(
        self,
        kernel_size,
        stride=(),
        padding=0,
        ceil_mode=False,
        count_include_pad=True,
        divisor_override=None,
    ):
        options = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
        found = _windows(self.shape, count, *options)
        known_dtype(self, unknown, "i", WHOLE_NUMBERS)
        if count == 3 and self.dtype in HALVES:
            raise unknown_dtype(unknown, self)
        return pool.avg_pool(self, found, divisor_override)

    return kernel


OPTIONS = "kernel_size stride padding ceil_mode count_include_pad divisor_override"
LIES = {2: (AS_CHANNELS,), 3: ()}


def _rows(count):
    name, title = f"avg_pool{count}d", f"AvgPool{count}D"

    def backward(grad_output, self, *options):
        found = _windows(self.shape, count, *options)
        return pool.avg_pool_backward(grad_output, self.shape, found, options[-1])

    return {
        f"{name}__default": op(
            f"{title}Backward0",
            _avg_pool(count),
            LINEAR,
            INTERNAL,
            *LIES[count],
            self=handed_on(f"{name}_backward", f"grad self {OPTIONS}"),
        ),
        f"{name}_backward": op(
            f"{title}BackwardBackward0",
            named(backward, f"grad_output self {OPTIONS}"),
            LINEAR,
            INTERNAL,
            grad_output=handed_on(name, f"grad {OPTIONS}"),
            self=lambda grad, self_shape: zeros_of(grad, self_shape),
        ),
    }


ROWS = {name: row for count in (2, 3) for name, row in _rows(count).items()}
globals().update(ROWS)
family(globals())


@function
@layout_only
def avg_pool1d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    """The means along the last dim, computed with two dims, the first of size one."""
    name = "avg_pool1d"
    size, step, pad = (
        ints(kernel_size, 1, name, "kernel_size", 2),
        stride_ints(stride, 1, name) or ints(kernel_size, 1, name, "kernel_size", 2),
        ints(padding, 1, name, "padding", 4),
    )
    check_dims_between(input._array, name)
    options = (
        (1, one_int(size, name, "kernel_size")),
        (1, one_int(step, name, "stride")),
        (0, one_int(pad, name, "padding")),
    )
    row = ROWS["avg_pool2d__default"]
    return row(input.unsqueeze(-2), *options, ceil_mode, count_include_pad, None).squeeze(-2)


def _function(count):
    name = f"avg_pool{count}d"
    row = ROWS[f"{name}__default"]

    def pooled(
        input,
        kernel_size,
        stride=None,
        padding=0,
        ceil_mode=False,
        count_include_pad=True,
        divisor_override=None,
        *,
        out=None,
    ):
        made = row(
            input,
            ints(kernel_size, count, name, "kernel_size", 2),
            stride_ints(stride, count, name),
            ints(padding, count, name, "padding", 4),
            ceil_mode,
            count_include_pad,
            divisor_override,
        )
        return made if out is None else written(name, made, out)

    pooled.__name__ = pooled.__qualname__ = name
    return pooled


nn_alias(avg_pool1d, "avg_pool1d")
avg_pool2d, avg_pool3d = (nn_function(_function(count)) for count in (2, 3))

# -- the norm of every window ----------------------------------------------------------------------


def _lp_pool(count):
    name = f"lp_pool{count}d"

    def pooled(input, norm_type, kernel_size, stride=None, ceil_mode=False):
        places = kernel_size
        if count > 1:
            sides = kernel_size if isinstance(kernel_size, list | tuple) else [kernel_size] * count
            if len(sides) != count:
                raise ValueError(_unpacking(len(sides), count))
            places = int(np.prod(sides))
        greatest = NN_FUNCTIONS[f"max_pool{count}d"]
        if norm_type == float("inf"):
            return greatest(input.abs(), kernel_size, stride, 0, 1, ceil_mode)
        if norm_type == -float("inf"):
            return -greatest(-input.abs(), kernel_size, stride, 0, 1, ceil_mode)
        mean = NN_FUNCTIONS[f"avg_pool{count}d"]
        out = mean(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
        return (out.sign() * NN_FUNCTIONS["relu"](out.abs())).mul(places).pow(1.0 / norm_type)

    pooled.__name__ = pooled.__qualname__ = name
    return nn_function(pooled)


def _unpacking(found, wanted):
    if found < wanted:
        return f"not enough values to unpack (expected {wanted}, got {found})"
    return f"too many values to unpack (expected {wanted})"


lp_pool1d, lp_pool2d, lp_pool3d = map(_lp_pool, (1, 2, 3))
