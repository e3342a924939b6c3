"""Layer normalization and RMS normalization."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import (
    FUNCTION_ONLY,
    INTERNAL,
    TRANSPOSED,
    family,
    joint,
    jvp,
    op,
    outputs,
    refuses,
    w,
)
from gradscope.runtime.core.dtypes import dtypes, memory_formats as formats
from gradscope.runtime.core.dtypes.limits import finfo
from gradscope.runtime.core.errors.dtypes import unknown_dtype
from gradscope.runtime.core.kernels.layers import norms
from gradscope.runtime.core.ops.in_formulas import Scalar
from gradscope.runtime.core.ops.layers.standard import (
    curvature,
    kept_moments,
    like_inputs,
    moments,
    parameter_dtype,
    tangent,
    wide,
)
from gradscope.runtime.core.ops.shape.padding import pad
from gradscope.runtime.core.rows.offered import FUNCTIONS, NN_FUNCTIONS, nn_function
from gradscope.runtime.core.tensors.dims import text


def _layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    _check(input, normalized_shape, weight, bias)
    kind = parameter_dtype(input, weight, bias)
    x, scale, shift = wide(np.ascontiguousarray(input), weight, bias)
    made, mean, rstd = norms.layer_norm(x, len(normalized_shape), scale, shift, eps)
    if made.dtype is input.dtype is kind:
        return made, mean, rstd
    return made.astype(input.dtype), mean.astype(kind), rstd.astype(kind)


def _check(input, normalized_shape, weight, bias, star="*, "):
    """Check the shapes; PyTorch writes some of them in two ways."""
    count = len(normalized_shape)
    if count < 1:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
            "element, but got normalized_shape = []"
        )
    wanted = tuple(normalized_shape)
    for name, given in (("weight", weight), ("bias", bias)):
        if given is not None and given.shape != wanted:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{text(given.shape)} and normalized_shape = {text(wanted)}"
            )
    if tuple(input.shape[-count:]) != wanted:
        raise RuntimeError(
            f"Given normalized_shape={text(wanted)}, expected input with shape "
            f"[{star}{', '.join(map(str, wanted))}], but got input of size{text(input.shape)}"
        )


def _layer_norm_gradients(
    grad_out,
    input,
    normalized_shape,
    mean,
    rstd,
    weight=None,
    bias=None,
    output_mask=(True, True, True),
):
    grad, x, mean, rstd, scale = wide(
        np.ascontiguousarray(grad_out), np.ascontiguousarray(input), mean, rstd, weight
    )
    made = norms.layer_norm_backward(grad, x, mean, rstd, scale, len(normalized_shape), output_mask)
    return like_inputs(made, input, weight, bias)


def _layer_norm_curvature(grads, grad_out, input, normalized_shape, mean, rstd, weight, needs):
    dims = tuple(range(-len(normalized_shape), 0))
    mean, rstd = kept_moments(input, dims, mean, rstd)
    to_grad, to_x, to_weight = curvature(grads, grad_out, (input - mean) * rstd, rstd, weight, dims)
    return to_grad, to_x, None, None, to_weight, None


def _layer_norm_tangent(input_t, weight_t, bias_t, input, normalized_shape, weight, eps):
    dims = tuple(range(-len(normalized_shape), 0))
    mean, rstd = moments(input, dims, eps)
    made = tangent((input_t, weight_t, bias_t), (input - mean) * rstd, rstd, weight, dims)
    return made, None, None


native_layer_norm = op(
    "NativeLayerNormBackward0",
    _layer_norm,
    jvp(_layer_norm_tangent),
    FUNCTION_ONLY,
    refuses("cbiu", "\"LayerNormKernelImpl\" not implemented for '{kind}'"),
    outputs("result0", "result1", "result2", without=("result1", "result2")),
    joint(
        "input",
        "weight",
        "bias",
        by=lambda grads, input, normalized_shape, result1, result2, weight, bias, needs: (
            w.native_layer_norm_backward(
                grads[0], input, normalized_shape, result1, result2, weight, bias, needs
            )
        ),
    ),
)
native_layer_norm_backward = op(
    "NativeLayerNormBackwardBackward0",
    _layer_norm_gradients,
    TRANSPOSED,
    INTERNAL,
    outputs("result0", "result1", "result2"),
    joint("grad_out", "input", "mean", "rstd", "weight", "bias", by=_layer_norm_curvature),
)
family(globals())


@nn_function
def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Normalize each sample over its last dims."""
    return native_layer_norm(input, tuple(normalized_shape), weight, bias, eps)[0]


def _top_layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    return layer_norm(input, normalized_shape, weight, bias, eps)


FUNCTIONS["layer_norm"] = _top_layer_norm


@nn_function
def rms_norm(input, normalized_shape, weight=None, eps=None):
    """Divide by the root of the mean square over the last dims."""
    shape = tuple(normalized_shape)
    array = input._array
    _check(array, shape, None if weight is None else weight._array, None, star="*")
    if array.dtype.kind in "biu":
        raise unknown_dtype("rms_norm", array)
    kind = input.dtype
    own = dtypes.float32 if kind in (dtypes.float16, dtypes.bfloat16) else kind
    eps = finfo(own).eps if eps is None else eps
    values = input if own is kind else input.to(own)
    dims = tuple(range(array.ndim - 1, array.ndim - 1 - len(shape), -1))
    made = values * (values.pow(2).mean(dims, True) + Scalar(eps)).rsqrt()
    if weight is not None:
        made = made * weight
    made = made if made.dtype is kind else made.to(kind)
    if formats.is_ordered(array, formats.contiguous_format):
        return made.contiguous()
    return made.clone(memory_format=formats.contiguous_format)  # PyTorch's has the input's layout


FUNCTIONS["rms_norm"] = rms_norm


@nn_function
def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """Divide each element by the mean square of neighbouring channels, to a power."""
    dims = input.dim()
    if dims < 3:
        raise ValueError(
            "Expected 3D or higher dimensionality                          input "
            f"(got {dims} dimensions)"
        )
    if input.numel() == 0:
        return input
    around, squares = (size // 2, (size - 1) // 2), input.mul(input)
    if dims == 3:
        padded = pad(squares.unsqueeze(1), (0, 0, *around))
        means = NN_FUNCTIONS["avg_pool2d"](padded, (size, 1), stride=1).squeeze(1)
    else:
        shape = input.shape
        padded = pad(squares.view(shape[0], 1, shape[1], shape[2], -1), (0, 0, 0, 0, *around))
        means = NN_FUNCTIONS["avg_pool3d"](padded, (size, 1, 1), stride=1).squeeze(1)
        means = means.view(shape)
    return input / means.mul(alpha).add(k).pow(beta)
