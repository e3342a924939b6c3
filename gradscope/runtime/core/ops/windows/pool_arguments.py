"""Arguments of pooling functions, and PyTorch's errors."""

from __future__ import annotations

from math import prod

from gradscope.runtime.core.errors.dtypes import unknown_dtype
from gradscope.runtime.core.kernels.windows import spans
from gradscope.runtime.core.tensors.dims import text

WORDS = {1: "one int", 2: "two ints", 3: "three ints"}
AXES = {2: "HW", 3: "THW"}


def ints(value, count, function, name, position):
    """A number for each dim, from one for all dims or a sequence."""
    if isinstance(value, int) and not isinstance(value, bool):
        return (value,) * count
    if isinstance(value, list | tuple):
        for place, item in enumerate(value):
            if not hasattr(item, "__index__"):
                raise TypeError(
                    f"{function}(): argument '{name}' (position {position}) must be tuple of ints, "
                    f"but found element of type {type(item).__name__} at pos {place}"
                )
        return tuple(int(item) for item in value)
    if hasattr(value, "__index__"):
        return (int(value),) * count
    raise TypeError(
        f"{function}(): argument '{name}' (position {position}) must be tuple of ints, "
        f"not {type(value).__name__}"
    )


def stride_ints(value, count, function):
    """The stride; the kernel size if it is missing."""
    return () if value is None else ints(value, count, function, "stride", 3)


def check_counts(name, count, kernel_size, stride, padding, dilation=None, *, average=False):
    """Check that each of these has one number, or one per dim."""
    either = "must be" if average and count == 3 else "must either be"
    left_out = "must be omitted," if average and count == 3 else "must either be omitted,"
    how_many = WORDS[count]
    for word, value, says in (
        ("kernel_size", kernel_size, either),
        ("stride", stride, left_out),
        ("padding", padding, either),
        ("dilation", dilation, "must be either"),
    ):
        if value is None or len(value) in (1, count) or (word == "stride" and not value):
            continue
        raise RuntimeError(f"{name}: {word} {says} a single int, or a tuple of {how_many}")


def spread(value, count):
    return value * count if len(value) == 1 else value


def known_dtype(array, name, kinds="fiu", only=None):
    """Refuse a dtype that the kernel does not support."""
    if array.dtype.kind in "fV" or (array.dtype.kind in kinds and only in (None, array.dtype)):
        return
    raise unknown_dtype(name, array)


def pooled_spans(shape, sizes, ceil_mode, count_include_pad=True):
    """The windows over the last dims; `sizes`: kernel, stride, padding and dilation for each."""
    given = list(zip(shape[-len(sizes[0]) :], *sizes, strict=True))
    for _, kernel, step, pad, dil in given:
        _check_padding(kernel, step, pad, dil)
    return [
        spans.regular(size, kernel, step, pad, dil, bool(ceil_mode), bool(count_include_pad))
        for size, kernel, step, pad, dil in given
        if step > 0 and dil > 0 and kernel > 0
    ]


def _check_padding(kernel, stride, padding, dilation):
    if stride == 0:
        raise RuntimeError("stride should not be zero")
    if padding < 0:
        raise RuntimeError(f"pad must be non-negative, but got pad: {padding}")
    if padding > ((kernel - 1) * dilation + 1) // 2:
        raise RuntimeError(
            "pad should be at most half of effective kernel size, but got "
            f"pad={padding}, kernel_size={kernel} and dilation={dilation}"
        )


def check_positive(kernel_size, stride, dilation):
    """Check that kernel, stride and dilation are at least one, in this order."""
    axes = AXES[len(kernel_size)]
    for what, letter, values in (
        ("kernel size", "k", kernel_size),
        ("stride", "d", stride),
        ("dilation", "dilation", dilation),
    ):
        if min(values) <= 0:
            named = " ".join(f"{letter}{a}: {v}" for a, v in zip(axes, values, strict=True))
            raise RuntimeError(f"{what} should be greater than zero, but got {named}")


def check_sizes(name, shape, count):
    """Check the number of dims, and that only the batch is empty."""
    batched = len(shape) == count + 2
    if count == 2:
        empty = 0 in (shape[1:] if batched else shape)
        if len(shape) not in (3, 4) or empty:
            raise RuntimeError(
                "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, "
                f"but got:{text(shape)}"
            )
        return
    if 0 in (shape[1:] if batched else shape):
        raise RuntimeError(  # PyTorch names dim 0, whichever it is
            f"{name}(): Expected input's non-batch dimensions to have positive length, but "
            f"input has a shape of {text(shape)} and non-batch dimension 0 has length zero!"
        )


def check_outputs(shape, sizes, ceil_mode):
    """Check that there is at least one window along each dim."""
    inside = shape[-len(sizes[0]) - 1 :]
    given = zip(inside[1:], *sizes, strict=True)
    outs = [
        spans.pooled_size(size, kernel, step, pad, apart, ceil_mode)
        for size, kernel, step, pad, apart in given
    ]
    if min(outs) >= 1:
        return
    shown = "x".join(map(str, inside))
    made = "x".join(map(str, (inside[0], *outs)))
    raise RuntimeError(
        f"Given input size: ({shown}). Calculated output size: ({made}). Output size is too small"
    )


def one_int(value, function, name):
    if len(value) != 1:
        raise RuntimeError(
            f"{function}() argument '{name}' should contain one int (got {len(value)})"
        )
    return value[0]


def check_dims_between(array, function):
    """Check that there are two or three dims, for poolings of one dim."""
    if array.ndim not in (2, 3):
        raise RuntimeError(
            f"Expected 2 to 3 dimensions, but got {array.ndim}-dimensional tensor for "
            f"argument #1 'self' (while checking arguments for {function})"
        )


def check_not_empty(shape, count, function):
    """Check that no dim after batch and channels is empty."""
    for dim in range(len(shape) - count, len(shape)):
        if shape[dim] == 0:
            raise RuntimeError(
                f"{function}(): Expected input to have non-zero size for non-batch dimensions, but "
                f"input has sizes {text(shape)} with dimension {dim} being empty"
            )


def flat_last(shape, count):
    """The shape with its last dims merged."""
    return (*shape[: len(shape) - count], prod(shape[len(shape) - count :]))
