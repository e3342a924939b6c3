"""Pooling to a given size: adaptive_avg_pool and adaptive_max_pool, 1d to 3d."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import INTERNAL, LINEAR, family, hidden, op, outputs, w
from gradscope.runtime.core.kernels.windows import pool, spans
from gradscope.runtime.core.ops.in_formulas import nn_alias
from gradscope.runtime.core.ops.index.gathering import zeros_of
from gradscope.runtime.core.ops.windows.max_pooling import max_backward_row, picked_tangent
from gradscope.runtime.core.ops.windows.pool_arguments import (
    check_dims_between,
    check_not_empty,
    ints,
    known_dtype,
    one_int,
)
from gradscope.runtime.core.rows.offered import function, nn_function
from gradscope.runtime.core.rows.traits import AS_CHANNELS
from gradscope.runtime.core.state.array_calls import layout_only
from gradscope.runtime.core.tensors.dims import text

EITHER = {2: "3D or 4D", 3: "4D or 5D"}


def _windows(shape, output_size):
    count = len(output_size)
    pairs = zip(shape[-count:], output_size, strict=True)
    return [spans.adaptive(size, out) for size, out in pairs]


def _check_average(array, output_size, count):
    name = f"adaptive_avg_pool{count}d"
    if array.ndim not in (count + 1, count + 2):
        raise RuntimeError(
            f"{name}(): Expected {EITHER[count]} tensor, but got {text(array.shape)}"
        )
    check_not_empty(array.shape, count, name)
    if 0 not in output_size:
        known_dtype(array, name if count == 2 else f"{name}_cpu", "")


def _check_not_empty_grad(grad, count):
    name = f"adaptive_avg_pool{count}d_backward"
    for dim in range(grad.ndim - count, grad.ndim):
        if grad.shape[dim] == 0:
            raise RuntimeError(
                f"{name}(): Expected grad_output to have non-zero size for non-batch dimensions, "
                f"but grad_output has sizes {text(grad.shape)} with dimension {dim} being empty"
            )


def _average_rows(count):
    name, title = f"_adaptive_avg_pool{count}d", f"AdaptiveAvgPool{count}D"

    def kernel(self, output_size):
        _check_average(self, output_size, count)
        if 0 in output_size:
            return np.empty((*self.shape[:-count], *output_size), self.dtype)
        return pool.avg_pool(self, _windows(self.shape, output_size))

    def backward(grad_output, self):
        _check_not_empty_grad(grad_output, count)
        found = _windows(self.shape, grad_output.shape[-count:])
        return pool.avg_pool_backward(grad_output, self.shape, found)

    return {
        name: op(
            f"{title}Backward0",
            kernel,
            LINEAR,
            AS_CHANNELS,
            INTERNAL,
            self=lambda grad, self: getattr(w, f"{name}_backward")(grad, self),
        ),
        f"{name}_backward": op(
            f"{title}BackwardBackward0",
            backward,
            LINEAR,
            INTERNAL,
            hidden("grad_output_shape"),
            grad_output=lambda grad, grad_output_shape: getattr(w, name)(
                grad, tuple(grad_output_shape[-count:])
            ),
            self=lambda grad, self_shape: zeros_of(grad, self_shape),
        ),
    }


def _check_greatest(array, output_size, count):
    name = f"adaptive_max_pool{count}d"
    if array.ndim not in (count + 1, count + 2):
        raise RuntimeError(
            f"{name}(): Expected {EITHER[count]} tensor, but got: {text(array.shape)}"
        )
    check_not_empty(array.shape, count, name)
    if len(output_size) != count:
        raise RuntimeError(f"{name}(): internal error: output_size.size() must be {count}")
    for size in output_size:
        if size < 0:
            made = text((*array.shape[:-count], *output_size))
            raise RuntimeError(f"Trying to create tensor with negative dimension {size}: {made}")
    known_dtype(array, name if count == 2 else f"{name}_cpu", "")


LIES = {2: (AS_CHANNELS,), 3: ()}


def _greatest_rows(count):
    name, title = f"adaptive_max_pool{count}d", f"AdaptiveMaxPool{count}D"

    def kernel(self, output_size):
        _check_greatest(self, output_size, count)
        return pool.max_pool(self, _windows(self.shape, output_size))

    def backward(grad_output, self, indices):
        return pool.max_pool_backward(grad_output, indices, self.shape, count)

    return {
        f"{name}__default": op(
            f"{title}Backward0",
            kernel,
            picked_tangent(count),
            *LIES[count],
            INTERNAL,
            outputs("result0", "result1", without=("result1",)),
            self=lambda grad, self, result1: getattr(w, f"{name}_backward")(grad[0], self, result1),
        ),
        f"{name}_backward": max_backward_row(count, f"{title}BackwardBackward0", backward),
    }


ROWS = {
    name: row
    for count in (2, 3)
    for name, row in (_average_rows(count) | _greatest_rows(count)).items()
}
globals().update(ROWS)
family(globals())


def _sizes(output_size, shape):
    """The output size; None along a dim keeps the input's."""
    if isinstance(output_size, int):
        return output_size
    if len(shape) <= len(output_size):
        raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
    last = shape[len(shape) - len(output_size) :]
    pairs = zip(output_size, last, strict=True)
    return [size if size is not None else given for size, given in pairs]


def _average(input, output_size, count):
    """The means; for a size of one, the result of `mean`."""
    name = f"adaptive_avg_pool{count}d"
    if len(output_size) != count:
        raise RuntimeError(f"{name}: output_size must be {count}")
    if min(output_size) < 0:
        # PyTorch omits a space if there are three.
        shown = "{" + ",".join([", ".join(map(str, output_size[:2])), *map(str, output_size[2:])])
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received "
            f"{shown}}}"
        )
    if set(output_size) == {1}:
        return input.mean(tuple(range(-1, -count - 1, -1)), True)
    return ROWS[f"_{name}"](input, tuple(output_size))


@function
@layout_only
def adaptive_avg_pool1d(input, output_size):
    """The means along the last dim, computed with two dims, the first of size one."""
    name = "adaptive_avg_pool1d"
    size = ints(output_size, 1, name, "output_size", 2)
    check_dims_between(input._array, name)
    out = one_int(size, name, "output_size")
    return _average(input.unsqueeze(-2), (1, out), 2).squeeze(-2)


@nn_function
def adaptive_avg_pool2d(input, output_size):
    given = _sizes(output_size, tuple(input.shape))
    return _average(input, ints(given, 2, "adaptive_avg_pool2d", "output_size", 2), 2)


@nn_function
def adaptive_avg_pool3d(input, output_size):
    given = _sizes(output_size, tuple(input.shape))
    return _average(input, ints(given, 3, "adaptive_avg_pool3d", "output_size", 2), 3)


@function
def adaptive_max_pool1d(input, output_size):
    """The maxima along the last dim, and their indices."""
    name = "adaptive_max_pool1d"
    size = ints(output_size, 1, name, "output_size", 2)
    check_dims_between(input._array, name)
    check_not_empty(input._array.shape, 1, name)
    out = one_int(size, name, "output_size")
    row = ROWS["adaptive_max_pool2d__default"]
    values, indices = row(input.unsqueeze(-2), (1, out))
    return values.squeeze(-2), indices.squeeze(-2)


def _functions(count):
    name = f"adaptive_max_pool{count}d"

    def with_indices(input, output_size, return_indices=False):
        if count == 1:
            return adaptive_max_pool1d(input, output_size)
        given = _sizes(output_size, tuple(input.shape))
        return ROWS[f"{name}__default"](input, ints(given, count, name, "output_size", 2))

    def pooled(input, output_size, return_indices=False):
        made = with_indices(input, output_size)
        return made if return_indices else made[0]

    with_indices.__name__ = with_indices.__qualname__ = f"{name}_with_indices"
    pooled.__name__ = pooled.__qualname__ = name
    nn_function(with_indices)
    return pooled


nn_alias(adaptive_avg_pool1d, "adaptive_avg_pool1d")
for _count in (1, 2, 3):
    nn_alias(_functions(_count), f"adaptive_max_pool{_count}d")
