"""Normalization of a batch's channels: batch_norm and instance_norm."""

from __future__ import annotations

import math

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
    tensors,
)
from gradscope.runtime.core.kernels.layers import norms
from gradscope.runtime.core.ops.in_formulas import handed_on
from gradscope.runtime.core.ops.layers.standard import (
    curvature,
    laid,
    laid_like,
    like_inputs,
    moments,
    parameter_dtype,
    tangent,
    three,
    wide,
)
from gradscope.runtime.core.rows.offered import FUNCTIONS, nn_function


def _check(input, weight, bias, running_mean, running_var, training):
    channels = input.shape[1] if input.ndim > 1 else 0
    for name, vector in (("running_mean", running_mean), ("running_var", running_var)):
        if vector is None and not training:
            raise RuntimeError(f"{name} must be defined in evaluation mode")
        _check_size(name, vector, channels)
    _check_size("weight", weight, channels)
    _check_size("bias", bias, channels)
    if (running_mean is None) is not (running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    if training and not input.size:
        raise RuntimeError(
            "input tensor must have at least one element, but got input_sizes = "
            f"{list(input.shape)}"
        )


def _check_size(name, vector, channels):
    if vector is not None and vector.size != channels:
        raise RuntimeError(f"{name} should contain {channels} elements not {vector.size}")


def _batch_norm(
    input,
    weight=None,
    bias=None,
    running_mean=None,
    running_var=None,
    training=False,
    momentum=0.1,
    eps=1e-5,
):
    """As in PyTorch, writing the running statistics does not increment their version."""
    _check(input, weight, bias, running_mean, running_var, training)
    kind = parameter_dtype(input, weight, bias, running_mean, running_var)
    x, scale, shift = wide(laid(input), weight, bias)
    if not training:
        mean, variance = wide(running_mean, running_var)
        made = norms.batch_norm(x, mean, _rstd(variance, eps), scale, shift)
        nothing = np.empty(0, kind)
        return made.astype(input.dtype, copy=False), nothing, nothing.copy()
    mean, rstd, variance = norms.batch_moments(x, eps)
    save_mean, save_invstd = mean.astype(kind, copy=False), rstd.astype(kind, copy=False)
    used_mean, used_rstd = wide(save_mean, save_invstd)
    made = norms.batch_norm(x, used_mean, used_rstd, scale, shift)
    if running_mean is not None:
        count = input.size // max(1, input.shape[1])
        with np.errstate(all="ignore"):  # one value has no unbiased variance
            unbiased = variance * (np.float64(count) / np.float64(count - 1))
        _track(running_mean, mean, momentum)
        _track(running_var, unbiased, momentum)
    return made.astype(input.dtype, copy=False), save_mean, save_invstd


def _rstd(variance, eps):
    with np.errstate(all="ignore"):
        return 1 / np.sqrt(variance + variance.dtype.type(eps))


def _track(running, value, momentum):
    running[...] = momentum * value + (1 - momentum) * running


def _batch_norm_gradients(
    grad_out,
    input,
    weight=None,
    running_mean=None,
    running_var=None,
    save_mean=None,
    save_invstd=None,
    train=True,
    eps=1e-5,
    output_mask=(True, True, True),
):
    grad, x, scale = wide(laid(grad_out), laid(input), weight)
    if train:
        mean, rstd = wide(save_mean, save_invstd)
    else:
        mean, variance = wide(running_mean, running_var)
        rstd = _rstd(variance, eps)
    made = norms.batch_norm_backward(grad, x, mean, rstd, scale, output_mask, train)
    like = input if weight is None else weight
    return like_inputs((laid_like(made[0], x), *made[1:]), input, like, like)


def _beside(vector, ndim):
    """One number per channel, broadcastable to a batch; None stays None."""
    return None if vector is None else vector.reshape((-1, *(1 for _ in range(ndim - 2))))


def _around(input, running_mean, running_var, training, eps):
    """The reduced dims (None if the moments are constants), the normalized values, and rstd."""
    dims = (0, *range(2, input.ndim))
    if training:
        mean, rstd = moments(input, dims, eps)
    else:
        mean = _beside(running_mean, input.ndim)
        rstd = (_beside(running_var, input.ndim) + eps) ** -0.5
    return (dims if training else None), (input - mean) * rstd, rstd


def _batch_norm_curvature(
    grads, grad_out, input, weight, running_mean, running_var, train, eps, needs
):
    dims, normal, rstd = _around(input, running_mean, running_var, train, eps)
    of_x, of_weight, of_bias = three(grads)
    to_grad, to_x, to_weight = curvature(
        (of_x, _beside(of_weight, input.ndim), _beside(of_bias, input.ndim)),
        grad_out,
        normal,
        rstd,
        _beside(weight, input.ndim),
        dims,
    )
    if to_weight is not None:
        to_weight = to_weight.sum((0, *range(2, input.ndim)))
    return to_grad, to_x, to_weight, None, None


def _batch_norm_tangent(
    input_t, weight_t, bias_t, input, weight, running_mean, running_var, training, eps
):
    dims, normal, rstd = _around(input, running_mean, running_var, training, eps)
    vectors = (_beside(weight_t, input.ndim), _beside(bias_t, input.ndim))
    made = tangent((input_t, *vectors), normal, rstd, _beside(weight, input.ndim), dims)
    return made, None, None


WORDS = "grads input weight running_mean running_var result1 result2 training eps needs"
native_batch_norm = op(
    "NativeBatchNormBackward0",
    _batch_norm,
    jvp(_batch_norm_tangent),
    FUNCTION_ONLY,
    refuses("cbiu", "\"batch_norm\" not implemented for '{kind}'"),
    tensors("running_mean", "running_var"),
    outputs("result0", "result1", "result2", without=("result1", "result2")),
    joint("input", "weight", "bias", by=handed_on("native_batch_norm_backward", WORDS)),
)
native_batch_norm_backward = op(
    "NativeBatchNormBackwardBackward0",
    _batch_norm_gradients,
    TRANSPOSED,
    INTERNAL,
    tensors("running_mean", "running_var"),
    outputs("result0", "result1", "result2"),
    joint("grad_out", "input", "weight", "save_mean", "save_invstd", by=_batch_norm_curvature),
)
family(globals())


def _no_gradient(**given):
    for name, tensor in given.items():
        if tensor is not None and tensor.requires_grad:
            raise RuntimeError(
                f"The function 'native_batch_norm' is not differentiable with respect to argument "
                f"'{name}'. This input cannot have requires_grad True."
            )


def _top_batch_norm(
    input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled
):
    if not isinstance(momentum, int | float):
        raise TypeError(
            "batch_norm(): argument 'momentum' (position 7) must be float, "
            f"not {type(momentum).__name__}"
        )
    _no_gradient(running_mean=running_mean, running_var=running_var)
    if not input._array.size:
        return _of_nothing(input, weight, bias)
    return native_batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps
    )[0]


def _of_nothing(input, weight, bias):
    """For a batch without elements: a copy with the history of a normal one."""
    made = input.clone()
    if weight is not None:
        made = made * weight[0]
    return made if bias is None else made + bias[0]


FUNCTIONS["batch_norm"] = _top_batch_norm


def several_values(size, shown=None):
    """Refuse a batch with one value per channel: it would become zero."""
    if size[0] * math.prod(size[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {shown or size}"
        )


@nn_function
def batch_norm(
    input,
    running_mean,
    running_var,
    weight=None,
    bias=None,
    training=False,
    momentum=0.1,
    eps=1e-5,
):
    """Normalize each channel over the batch, or by the running statistics."""
    if training:
        several_values(input.size())
        if eps <= 0.0:
            raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    elif eps < 0.0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    return _top_batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps, True
    )


def _top_instance_norm(
    input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled
):
    """instance_norm of the top module: samples become channels, with their own parameters."""
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError(
            "Expected running_mean and running_var to be defined when use_input_stats is false"
        )
    samples, channels = input._array.shape[:2]
    own = (weight, bias, running_mean, running_var)
    scale, shift, mean, variance = (None if v is None else v.repeat(samples) for v in own)
    whole = input.contiguous().view(1, samples * channels, *input._array.shape[2:])
    made = _top_batch_norm(
        whole, scale, shift, mean, variance, use_input_stats, momentum, eps, cudnn_enabled
    )
    for running, tracked in ((running_mean, mean), (running_var, variance)):
        if use_input_stats and running is not None and tracked is not None:
            running.detach().copy_(tracked.detach().view(samples, channels).mean(0))
    return made.view(input._array.shape)


FUNCTIONS["instance_norm"] = _top_instance_norm


@nn_function
def instance_norm(
    input,
    running_mean=None,
    running_var=None,
    weight=None,
    bias=None,
    use_input_stats=True,
    momentum=0.1,
    eps=1e-5,
):
    """Normalize each channel of each sample separately."""
    if use_input_stats and math.prod(input.size()[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {input.size()}"
        )
    return _top_instance_norm(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True
    )
