"""The activations of `nn.functional`, with `inplace=`."""

from __future__ import annotations

from gradscope.runtime.core.dtypes.limits import finfo
from gradscope.runtime.core.ops.activations import kinks, smooth as activation
from gradscope.runtime.core.ops.in_formulas import nn_alias
from gradscope.runtime.core.rows.offered import (
    FUNCTIONS,
    METHODS,
    NN_FUNCTIONS,
    both,
    function,
    nn_function,
)


def _switched(name, row, twin):
    """A function of one tensor with an `inplace` option."""

    def function(input, inplace=False):
        return twin(input) if inplace else row(input)

    function.__name__ = function.__qualname__ = name
    return nn_function(function)


relu = _switched("relu", kinks.relu, kinks.relu_)
silu = _switched("silu", activation.silu, activation.silu_)
mish = _switched("mish", activation.mish, activation.mish_)
hardswish = _switched("hardswish", kinks.hardswish, kinks.hardswish_)
hardsigmoid = _switched("hardsigmoid", kinks.hardsigmoid, kinks.hardsigmoid_)


@nn_function
def gelu(input, approximate="none"):
    return activation.gelu(input, approximate=approximate)


@nn_function
def softplus(input, beta=1, threshold=20):
    return activation.softplus(input, beta, threshold)


@nn_function
def logsigmoid(input):
    return activation.log_sigmoid_forward(input)[0]


@nn_function
def elu(input, alpha=1.0, inplace=False):
    return (activation.elu_ if inplace else activation.elu)(input, alpha, 1, 1)


@function
def selu(input, inplace=False):
    alpha, scale = 1.6732632423543772, 1.0507009873554805
    return (activation.elu_ if inplace else activation.elu)(input, alpha, scale, 1)


@function
def celu(input, alpha=1.0, inplace=False):
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return (activation.celu_ if inplace else activation.celu)(input, alpha)


@nn_function
def glu(input, dim=-1):
    return activation.glu(input, dim)


@nn_function
def leaky_relu(input, negative_slope=0.01, inplace=False):
    return (kinks.leaky_relu_ if inplace else kinks.leaky_relu)(input, negative_slope)


@nn_function
def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return (kinks.hardtanh_ if inplace else kinks.hardtanh)(input, min_val, max_val)


@nn_function
def relu6(input, inplace=False):
    return (kinks.hardtanh_ if inplace else kinks.hardtanh)(input, 0, 6)


@function
def threshold(input, threshold, value, inplace=False):
    return (kinks.threshold_ if inplace else kinks.threshold)(input, threshold, value)


@function
def hardshrink(input, lambd=0.5):
    return kinks.hardshrink(input, lambd)


@nn_function
def softshrink(input, lambd=0.5):
    if lambd < 0:
        limits = finfo(input.dtype)
        raise RuntimeError(
            f"lambda must be in range [0, {limits.max:g}] for input dtype "
            f"{input.dtype.scalar_name}, but found {lambd:g}"
        )
    return kinks.softshrink(input, lambd)


@nn_function
def tanhshrink(input):
    return input - input.tanh()


@nn_function
def softsign(input):
    return input / (input.abs() + 1)


@both
def prelu(input, weight):
    """leaky_relu with learned slopes: one, or one per channel."""
    if weight.dim() > 1:
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.dim()}"
        )
    if not input.dim() and weight.numel() != 1:
        raise RuntimeError("Not allow zero-dim input tensor.")
    channels = input.shape[1] if input.dim() > 1 else 1
    if weight.numel() != 1 and weight.numel() != channels:
        raise RuntimeError(
            "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
            f"{weight.numel()} and channel size = {channels}."
        )
    if weight.dim() != input.dim():
        shape = [1] * input.dim()
        if input.dim() > 1:
            shape[1] = weight.numel()
        weight = weight.reshape(shape)
    return kinks._prelu_kernel(input, weight)


def _twin_functions():
    """The in-place functions of `nn.functional`: relu_, elu_ and so on."""
    for name in ("celu", "elu", "hardtanh", "leaky_relu", "selu", "threshold"):
        plain = FUNCTIONS.get(name) or NN_FUNCTIONS[name]
        made = NN_FUNCTIONS[f"{name}_"] = _in_place(f"{name}_", plain)
        if name in ("celu", "selu", "threshold"):
            FUNCTIONS[f"{name}_"] = made


def _in_place(name, plain):
    def function(input, *args, **kwargs):
        return plain(input, *args, **kwargs, inplace=True)

    function.__name__ = function.__qualname__ = name
    return function


_twin_functions()
for _name in ("celu", "hardshrink", "prelu", "selu", "threshold"):
    nn_alias(FUNCTIONS[_name], _name)
nn_alias(activation.sigmoid, "sigmoid")
nn_alias(activation.tanh, "tanh")
nn_alias(kinks.relu_, "relu_")
FUNCTIONS["relu_"] = kinks.relu_
METHODS["hardshrink"] = hardshrink
