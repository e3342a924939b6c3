"""Shapes of convolutions: checks with PyTorch's messages, and output sizes."""

from __future__ import annotations

from functools import lru_cache

from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.dtypes.names import c_name, error_name
from gradscope.runtime.core.errors.dtypes import other_dtype, unknown_dtype
from gradscope.runtime.core.kernels.windows.windows import windows
from gradscope.runtime.core.tensors.dims import text

PER_DIM = {1: ("width",), 2: ("height", "width"), 3: ("depth", "height", "width")}


def check_dtypes(input, weight, bias, dilation, transposed):
    """Refuse different dtypes, or an unsupported one."""
    if bias is not None and bias.dtype != input.dtype:
        raise RuntimeError(
            f"Input type ({c_name(input)}) and bias type ({c_name(bias)}) should be the same"
        )
    if input.dtype.kind in "biu":
        _check_whole(input, dilation, transposed)
    if weight.dtype == input.dtype:
        return
    kind = dtypes.from_numpy(input.dtype)
    shared = f"Input type ({error_name(input)}) and weight type ({error_name(weight)})"
    if kind.is_complex:
        raise RuntimeError(f"{shared} should be the same")
    if kind in (dtypes.float32, dtypes.bfloat16) and input.ndim < 5:
        raise RuntimeError(
            f"{shared} should be the same or input should be a MKLDNN tensor and weight is a "
            "dense tensor"
        )
    raise other_dtype(kind.scalar_name, weight)


def _check_whole(input, dilation, transposed):
    """Some of PyTorch's implementations of convolution accept integers."""
    kind = dtypes.from_numpy(input.dtype)
    is_wide = any(step != 1 for step in dilation)
    if kind is dtypes.int64 or (kind is not dtypes.bool_ and not transposed and not is_wide):
        return
    dims = 3 if input.ndim == 5 else 2
    if transposed:
        name = f"slow_conv_transpose{dims}d_out_cpu"
    elif is_wide:
        name = "slow_conv_dilated<>"
    else:
        name = "slow_conv2d_cpu" if dims == 2 else "compute_columns3d"
    raise unknown_dtype(name, input)


@lru_cache(4096)
def spread(dims, stride, padding, dilation, output_padding):
    """All four for each dim: a list of one is for all dims."""
    return (
        _each(stride, dims, "stride"),
        _each(padding, dims, "padding"),
        _each(dilation, dims, "dilation"),
        _each(output_padding, dims, "output_padding"),
    )


def _each(given, dims, name):
    if len(given) == 1:
        return given * dims
    if len(given) != dims:
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {dims} values to match "
            f"the convolution dimensions, but got {name}={text(given)}"
        )
    return given


@lru_cache(4096)
def checked(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """The shape of the result, and the windows over the larger of both sides."""
    stride, padding, dilation, output_padding = spread(
        len(weight) - 2, stride, padding, dilation, output_padding
    )
    _check_options(stride, padding, dilation, output_padding, groups)
    if min(dilation, default=1) < 0:
        raise RuntimeError("dilation should be greater than zero")
    _check_shapes(input, weight, bias, transposed, groups)
    size, kernel = input[2:], weight[2:]
    if transposed:
        out = tuple(
            (n - 1) * s - 2 * p + d * (k - 1) + 1 + o
            for n, s, p, d, k, o in zip(
                size, stride, padding, dilation, kernel, output_padding, strict=True
            )
        )
        _check_transposed(size, out, stride, dilation, output_padding)
        made = (input[0], weight[1] * groups, *out)
        return made, windows(out, kernel, size, stride, padding, dilation)
    seen = tuple(d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True))
    padded = tuple(n + 2 * p for n, p in zip(size, padding, strict=True))
    _check_fit(padded, seen)
    if input[0] and input[1] and not all(size):
        raise RuntimeError(
            "Only zero batch or zero channel inputs are supported, but got input shape: "
            f"{text(input)}"
        )
    out = tuple((n - k) // s + 1 for n, k, s in zip(padded, seen, stride, strict=True))
    return (input[0], weight[0], *out), windows(size, kernel, out, stride, padding, dilation)


def _check_options(stride, padding, dilation, output_padding, groups):
    if min(padding, default=0) < 0:
        raise RuntimeError("negative padding is not supported")
    if min(output_padding, default=0) < 0:
        raise RuntimeError("negative output_padding is not supported")
    if min(stride, default=1) <= 0:
        raise RuntimeError("non-positive stride is not supported")
    if 0 in dilation:
        raise RuntimeError("non-positive dilation is not supported")
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")


def _check_shapes(input, weight, bias, transposed, groups):
    dims, given = len(weight), f"weight of size {text(weight)}"
    if len(input) != dims:
        raise RuntimeError(
            f"Expected {dims}-dimensional input for {dims}-dimensional weight {text(weight)}, but "
            f"got {len(input)}-dimensional input of size {text(input)} instead"
        )
    if weight[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but "
            f"got {given} instead"
        )
    if weight[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, "
            f"but got weight of size [{text(weight)}] instead"
        )
    wanted = weight[0] if transposed else weight[1] * groups
    said = f"transposed={int(transposed)}" if transposed else f"groups={groups}"
    if input[1] != wanted:
        raise RuntimeError(
            f"Given {said}, {given}, expected input{text(input)} to have {wanted} channels, but "
            f"got {input[1]} channels instead"
        )
    channels = weight[1] * groups if transposed else weight[0]
    if bias is not None and bias != (channels,):
        said = f"Given transposed={int(transposed)}, {given}" if transposed else f"Given {given}"
        raise RuntimeError(
            f"{said}, expected bias to be 1-dimensional with {channels} elements, but got bias of "
            f"size {text(bias)} instead"
        )


def _check_fit(padded, seen):
    if all(n >= k for n, k in zip(padded, seen, strict=True)):
        if min(seen) <= 0:
            names = PER_DIM[len(seen)]
            sizes = " ".join(f"kernel_{n}: {k}" for n, k in zip(names, seen, strict=True))
            raise RuntimeError(f"kernel size should be greater than zero, but got {sizes}")
        return
    raise RuntimeError(
        f"Calculated padded input size per channel: ({_by(padded)}). Kernel size: ({_by(seen)}). "
        "Kernel size can't be greater than actual input size"
    )


def _by(sizes):
    return " x ".join(map(str, sizes))


def _check_transposed(size, out, stride, dilation, output_padding):
    steps = zip(output_padding, stride, dilation, strict=True)
    if any(more >= s and more >= d for more, s, d in steps):
        if len(stride) == 1:  # PyTorch sees an image with one line
            output_padding, stride, dilation = (
                (n, *t) for n, t in zip((0, 1, 1), (output_padding, stride, dilation), strict=True)
            )
        named = {"output_padding": output_padding, "stride": stride, "dilation": dilation}
        told = " ".join(
            f"{name}_{dim}: {value}"
            for name, values in named.items()
            for dim, value in zip(PER_DIM[len(stride)], values, strict=True)
        )
        raise RuntimeError(
            f"output padding must be smaller than either stride or dilation, but got {told}"
        )
    if min(out) < 1:
        raise RuntimeError(
            f"Given input size per channel: ({_by(size)}). Calculated output size per channel: "
            f"({_by(out)}). Output size is too small"
        )
