"""max_unpool1d to 3d; and fractional_max_pool."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import INTERNAL, LINEAR, family, op, outputs, tensors, w
from gradscope.runtime.core.dtypes.names import scalar_name
from gradscope.runtime.core.kernels.windows import pool, spans
from gradscope.runtime.core.ops.in_formulas import nn_alias
from gradscope.runtime.core.ops.windows.max_pooling import max_backward_row, picked, picked_tangent
from gradscope.runtime.core.ops.windows.pool_arguments import flat_last, known_dtype
from gradscope.runtime.core.rows.offered import FUNCTIONS, nn_function
from gradscope.runtime.core.tensors.dims import text, wrapped


def _check_unpooling(array, indices, count):
    if indices.dtype != np.int64:
        given = f" but got: {scalar_name(indices)}" if count == 2 else ""
        raise RuntimeError(f"elements in indices should be type int64{given}")
    if array.ndim not in (count + 1, count + 2):
        raise RuntimeError(
            f"Input to max_unpooling{count}d should be a {count + 1}d or {count + 2}d Tensor, but "
            f"got a tensor with {array.ndim} dimensions."
        )
    if array.shape != indices.shape:
        raise RuntimeError(
            "Expected shape of indices to be same as that of the input tensor "
            f"({text(array.shape)}) but got indices tensor with shape: {text(indices.shape)}"
        )
    for dim in range(1, array.ndim):
        if array.shape[dim] == 0:
            raise RuntimeError(
                f"max_unpooling{count}d_forward_out_cpu(): Expected input to have non-zero size "
                f"for non-batch dimensions, but got {text(array.shape)} with dimension {dim} "
                "being empty."
            )
    known_dtype(array, f"max_unpool{count}d", "")


def _unpool(array, indices, output_size):
    count = len(output_size)
    made = np.zeros((*array.shape[:-count], *output_size), array.dtype)
    places = indices.reshape(flat_last(indices.shape, count))
    planes = made.reshape(flat_last(made.shape, count))
    outside = (places < 0) | (places >= planes.shape[-1])
    if outside.any():
        shown = "x".join(map(str, output_size))
        raise RuntimeError(
            f"Found an invalid max index: {places[outside][0]} (output volumes are of size {shown})"
        )
    np.put_along_axis(planes, places, array.reshape(places.shape), -1)
    return made


def _max_unpool2d(self, indices, output_size):
    _check_unpooling(self, indices, 2)
    return _unpool(self, indices, output_size)


def _max_unpool3d(self, indices, output_size, stride, padding):
    _check_unpooling(self, indices, 3)
    if min(stride) <= 0:
        raise RuntimeError(f"strides should be greater than zero, but got stride: {text(stride)}")
    return _unpool(self, indices, output_size)


max_unpool2d__default = op(
    "MaxUnpool2DBackward0",
    _max_unpool2d,
    LINEAR,
    INTERNAL,
    tensors("indices"),
    self=lambda grad, indices: picked(grad, indices, 2),
)
max_unpool3d__default = op(
    "MaxUnpool3DBackward0",
    _max_unpool3d,
    LINEAR,
    INTERNAL,
    tensors("indices"),
    self=lambda grad, indices: picked(grad, indices, 3),
)

# -- windows at random distances -------------------------------------------------------------------

SIDES = {2: ("height", "width"), 3: ("time", "height", "width")}


def _fractional_windows(array, kernel_size, output_size, samples, count):
    name = f"fractional_max_pool{count}d" if count == 2 else "fractional_max_pool3d_out"
    for word, value in (("kernel_size", kernel_size), ("output_size", output_size)):
        if len(value) not in (1, count):
            raise RuntimeError(
                f"fractional_max_pool{count}d: {word} must either be a single Int or tuple of Ints"
            )
    if array.ndim not in (count + 1, count + 2):
        raise RuntimeError(
            f"{name}(): Expected {count + 1}D or {count + 2}D tensor, but got: {text(array.shape)}"
        )
    for dim in range(array.ndim - count, array.ndim):
        if array.shape[dim] == 0:
            raise RuntimeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but got"
                f"{text(array.shape)} with dimension {dim} being empty."
            )
    _check_samples(array, samples, count)
    sizes, kernels, outs = (
        array.shape[-count:],
        kernel_size * (count // len(kernel_size)),
        output_size * (count // len(output_size)),
    )
    for side, size, kernel, out in zip(SIDES[count], sizes, kernels, outs, strict=True):
        if out + kernel - (count == 2) > size:  # PyTorch's limit is one less for three dims
            raise RuntimeError(
                f"{name}(): pool {side} {kernel} too large relative to input {side} {size}"
            )
    order = (1, 0) if count == 2 else (0, 1, 2)
    columns = [samples[..., place] for place in order]
    return [
        spans.fractional(size, kernel, out, column)
        for size, kernel, out, column in zip(sizes, kernels, outs, columns, strict=True)
    ]


def _check_samples(array, samples, count):
    if samples.dtype != array.dtype:
        raise RuntimeError("Expect _random_samples to have the same dtype as input")
    if samples.ndim != 3:
        raise RuntimeError(f"Expect _random_samples to have 3 dimensions, got {samples.ndim}")
    batch = array.shape[0] if array.ndim == count + 2 else 1
    if samples.shape[0] < batch:
        raise RuntimeError("Expect _random_samples.size(0) no less then input batch size.")
    if samples.shape[1] != array.shape[-count - 1]:
        raise RuntimeError("Expect _random_samples.size(1) equals to input channel size.")
    if samples.shape[2] != count:
        raise RuntimeError(
            f"Expect _random_samples.size(2) equals to {count}; got {samples.shape[2]}."
        )


def _fractional_rows(count):
    name, title = f"fractional_max_pool{count}d", f"FractionalMaxPool{count}D"

    def kernel(self, kernel_size, output_size, random_samples):
        planes = random_samples[: self.shape[0] if self.ndim == count + 2 else 1]
        found = _fractional_windows(self, kernel_size, output_size, planes, count)
        return pool.max_pool(self, found)

    def backward(grad_output, self, kernel_size, output_size, indices):
        return pool.max_pool_backward(grad_output, indices, self.shape, count)

    return {
        f"{name}__default": op(
            f"{title}Backward0",
            kernel,
            picked_tangent(count),
            INTERNAL,
            tensors("random_samples"),
            outputs("result0", "result1", without=("result1",)),
            self=lambda grad, self, kernel_size, output_size, result1: getattr(
                w, f"{name}_backward"
            )(grad[0], self, kernel_size, output_size, result1),
        ),
        f"{name}_backward": max_backward_row(count, f"{title}BackwardBackward0", backward),
    }


ROWS = {name: row for count in (2, 3) for name, row in _fractional_rows(count).items()}
globals().update(ROWS)
family(globals())


# -- public functions -----------------------------------------------------------------------------


def _many(value, count):
    """One number for each dim; a sequence stays unchanged."""
    return tuple(value) if isinstance(value, list | tuple) else (value,) * count


def _unpooled_size(shape, kernel_size, stride, padding, output_size):
    """The size before pooling: the requested one, if it fits, otherwise the smallest possible."""
    count = len(kernel_size)
    least = [
        (shape[d - count] - 1) * stride[d] + kernel_size[d] - 2 * padding[d] for d in range(count)
    ]
    if output_size is None:
        return _not_negative(least)
    if len(output_size) == count + 2:
        output_size = output_size[2:]
    if len(output_size) != count:
        raise ValueError(
            f"output_size should be a sequence containing {count} or {count + 2} elements, but it "
            f"has a length of '{len(output_size)}'"
        )
    for d, size in enumerate(output_size):
        low, high = least[d] - stride[d], least[d] + stride[d]
        if not low < size < high:
            raise ValueError(
                f'invalid output_size "{output_size}" (dim {d} must be between {low} and {high})'
            )
    return _not_negative(output_size)


def _not_negative(sizes):
    for dim, size in enumerate(sizes):
        if size < 0:
            raise ValueError(
                "max_unpooling: output_size must contain non-negative spatial dimensions, but got "
                f"output_size[{dim}]={size}"
            )
    return tuple(sizes)


def _unpooling(count):
    def unpooled(input, indices, kernel_size, stride=None, padding=0, output_size=None):
        kernel = _many(kernel_size, count)
        step = kernel if stride is None else _many(stride, count)
        pad = _many(padding, count)
        size = _unpooled_size(tuple(input.shape), kernel, step, pad, output_size)
        if count == 1:
            lifted = max_unpool2d__default(input.unsqueeze(-1), indices.unsqueeze(-1), (*size, 1))
            return lifted.squeeze(-1)
        if count == 2:
            return max_unpool2d__default(input, indices, size)
        return max_unpool3d__default(input, indices, size, step, pad)

    unpooled.__name__ = unpooled.__qualname__ = f"max_unpool{count}d"
    return nn_function(unpooled)


max_unpool1d, max_unpool2d, max_unpool3d = map(_unpooling, (1, 2, 3))


def _fractional(count):
    name = f"fractional_max_pool{count}d"

    def with_indices(
        input,
        kernel_size,
        output_size=None,
        output_ratio=None,
        return_indices=False,
        _random_samples=None,
    ):
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
        if output_size is None:
            output_size = _by_ratio(input, output_ratio, count)
        if _random_samples is None:
            wrapped(-count - 1, input.dim())
            batch = 1 if input.dim() == count + 1 else input.size(0)
            _random_samples = FUNCTIONS["rand"](
                batch, input.size(-count - 1), count, dtype=input.dtype, device=input.device
            )
        if _random_samples.requires_grad:
            raise RuntimeError(
                f"The function '{name}' is not differentiable with respect to argument "
                "'random_samples'. This input cannot have requires_grad True."
            )
        row = ROWS[f"{name}__default"]
        return row(input, _many(kernel_size, count), _many(output_size, count), _random_samples)

    def pooled(
        input,
        kernel_size,
        output_size=None,
        output_ratio=None,
        return_indices=False,
        _random_samples=None,
    ):
        made = with_indices(
            input, kernel_size, output_size, output_ratio, return_indices, _random_samples
        )
        return made if return_indices else made[0]

    with_indices.__name__ = with_indices.__qualname__ = f"{name}_with_indices"
    pooled.__name__ = pooled.__qualname__ = name
    nn_function(with_indices)
    return pooled


def _by_ratio(input, output_ratio, count):
    if count == 2 and len(output_ratio) > 2:
        raise ValueError(
            "fractional_max_pool2d requires output_ratio to either be a single Int or tuple of "
            "Ints."
        )
    ratios = _many(output_ratio, count)
    return tuple(int(input.size(d - count) * ratios[d]) for d in range(count))


for _count in (2, 3):
    nn_alias(_fractional(_count), f"fractional_max_pool{_count}d")
