"""Group normalization."""

from __future__ import annotations

from gradscope.runtime.core.calls.declare import (
    FUNCTION_ONLY,
    family,
    joint,
    jvp,
    op,
    outputs,
    refuses,
)
from gradscope.runtime.core.kernels.layers import norms
from gradscope.runtime.core.ops.in_formulas import on_arrays
from gradscope.runtime.core.ops.layers.batch_norm import several_values
from gradscope.runtime.core.ops.layers.standard import (
    channels_last,
    laid_like,
    like_inputs,
    moments,
    parameter_dtype,
    tangent,
    three,
    turned,
    wide,
)
from gradscope.runtime.core.rows.offered import FUNCTIONS, nn_function
from gradscope.runtime.core.state.array_calls import layout_only
from gradscope.runtime.core.tensors.dims import text


def _group_norm(input, weight, bias, N, C, HxW, group, eps):
    _check(input, weight, bias, C, group)
    kind = parameter_dtype(input, weight, bias)
    x, scale, shift = wide(input.reshape(N, C, HxW), weight, bias)
    made, mean, rstd = norms.group_norm(x, group, scale, shift, eps)
    return (
        laid_like(made.reshape(input.shape).astype(input.dtype, copy=False), input),
        mean.astype(kind, copy=False),
        rstd.astype(kind, copy=False),
    )


def _check(input, weight, bias, channels, groups):
    if groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {groups}")
    if channels % groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of "
            f"shape {text(input.shape)} and num_groups={groups}"
        )
    shown = text((0,) if weight is None else weight.shape)  # PyTorch reports it for the bias, too
    for name, vector in (("weight", weight), ("bias", bias)):
        if vector is not None and (vector.ndim != 1 or vector.size != channels):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, "
                f"but got {name} of shape {shown} and input of shape {text(input.shape)}"
            )


def _group_norm_backward(grads, input, weight, result1, result2, N, C, HxW, group, eps, needs):
    """As in PyTorch: one kernel in an ordinary backward, operations under create_graph."""
    grad, of_mean, of_rstd = three(grads)
    if on_arrays(input) and not (of_mean.any() or of_rstd.any()):
        return _gradients(grad, input, weight, result1, result2, N, C, HxW, group, needs)
    shape = (N, group, C // group, HxW)
    mean, rstd = moments(input.reshape(shape), (2, 3), eps)
    normal = (input.reshape(shape) - mean) * rstd
    incoming = grad.reshape(shape)
    to_input = None
    if needs[0]:
        scaled = incoming if weight is None else incoming * weight.reshape(1, *shape[1:3], 1)
        to_input = turned(scaled, normal, rstd, (2, 3)) + _of_moments(
            of_mean.reshape(mean.shape), of_rstd.reshape(mean.shape), normal, rstd
        )
    return (
        None if to_input is None else to_input.reshape(input.shape),
        (incoming * normal).sum((0, 3)).reshape(C) if needs[1] else None,
        incoming.sum((0, 3)).reshape(C) if needs[2] else None,
    )


def _of_moments(of_mean, of_rstd, normal, rstd):
    """The input's gradient from those of mean and rstd."""
    count = normal.shape[2] * normal.shape[3]
    return (of_mean - of_rstd * rstd * rstd * normal) / count


def _gradients(grad, input, weight, mean, rstd, N, C, HxW, group, needs):
    x, incoming, scale, mean, rstd = wide(
        input.reshape(N, C, HxW), grad.reshape(N, C, HxW), weight, mean, rstd
    )
    to_x, *others = norms.group_norm_backward(incoming, x, mean, rstd, scale, group, needs)
    to_input = None if to_x is None else laid_like(to_x.reshape(input.shape), input)
    like = input if weight is None else weight
    return like_inputs((to_input, *others), input, like, like)


def _group_norm_tangent(input_t, weight_t, bias_t, input, weight, N, C, HxW, group, eps):
    shape, vector = (N, group, C // group, HxW), (1, group, C // group, 1)
    x = input.reshape(shape)
    mean, rstd = moments(x, (2, 3), eps)
    normal = (x - mean) * rstd
    moved = None if input_t is None else input_t.reshape(shape)
    tangents = (
        moved,
        None if weight_t is None else weight_t.reshape(vector),
        None if bias_t is None else bias_t.reshape(vector),
    )
    scale = None if weight is None else weight.reshape(vector)
    made = tangent(tangents, normal, rstd, scale, (2, 3)).expand(shape).reshape(input.shape)
    if moved is None:
        return made, None, None
    of_rstd = (moved * normal).mean((2, 3)) * -(rstd * rstd).reshape(N, group)
    return made, moved.mean((2, 3)), of_rstd


native_group_norm = op(
    "NativeGroupNormBackward0",
    lambda input, weight=None, bias=None, N=0, C=0, HxW=0, group=1, eps=1e-5: _group_norm(
        input, weight, bias, N, C, HxW, group, eps
    ),
    jvp(_group_norm_tangent),
    FUNCTION_ONLY,
    refuses("cbiu", "\"GroupNormKernelImpl\" not implemented for '{kind}'"),
    outputs("result0", "result1", "result2"),
    joint("input", "weight", "bias", by=_group_norm_backward),
)
family(globals())


@layout_only
def _top_group_norm(input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    array = input._array
    samples, channels = array.shape[:2]
    _check(
        array,
        None if weight is None else weight._array,
        None if bias is None else bias._array,
        channels,
        num_groups,
    )
    size = array.size // max(1, samples * channels)
    if array.ndim not in (4, 5) or not channels_last(array):
        input = input.contiguous()
    return native_group_norm(input, weight, bias, samples, channels, size, num_groups, eps)[0]


FUNCTIONS["group_norm"] = _top_group_norm


@nn_function
def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """Normalize each group of channels of each sample separately."""
    if input.dim() < 2:
        raise RuntimeError(
            f"Expected at least 2 dimensions for input tensor but received {input.dim()}"
        )
    size = input._array.shape
    several_values([size[0] * size[1] // num_groups, num_groups, *size[2:]])
    return _top_group_norm(input, num_groups, weight, bias, eps)
