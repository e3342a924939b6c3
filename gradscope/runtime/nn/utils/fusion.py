"""Fuse a layer with the batch norm after it, for evaluation."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from gradscope.runtime.core.rows.offered import FUNCTIONS
from gradscope.runtime.core.tensors.making import factories
from gradscope.runtime.nn.parameter import Parameter

__all__ = [
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
]


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A convolution equal to `conv` followed by `bn`."""
    _check(conv, bn)
    made = deepcopy(conv)
    statistics = (bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)
    made.weight, made.bias = fuse_conv_bn_weights(made.weight, made.bias, *statistics, transpose)
    return made


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A linear layer equal to `linear` followed by `bn`."""
    _check(linear, bn)
    made = deepcopy(linear)
    if bn.num_features not in {linear.out_features, 1}:
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1"
        )
    statistics = (bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)
    made.weight, made.bias = fuse_linear_bn_weights(made.weight, made.bias, *statistics)
    return made


def _check(layer: Any, bn: Any) -> None:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError(
            "bn.running_mean and bn.running_var must not be None for fusion in eval mode"
        )


def fuse_conv_bn_weights(
    conv_w: Any,
    conv_b: Any,
    bn_rm: Any,
    bn_rv: Any,
    bn_eps: float,
    bn_w: Any,
    bn_b: Any,
    transpose: bool = False,
) -> tuple[Any, Any]:
    """Weight and bias of the fused convolution."""
    shape = [1, -1] if transpose else [-1, 1]
    return _fused(
        conv_w, conv_b, (bn_rm, bn_rv, bn_eps, bn_w, bn_b), shape + [1] * (conv_w.dim() - 2)
    )


def fuse_linear_bn_weights(
    linear_w: Any, linear_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any
) -> tuple[Any, Any]:
    """Weight and bias of the fused linear layer."""
    return _fused(linear_w, linear_b, (bn_rm, bn_rv, bn_eps, bn_w, bn_b), [-1, 1])


def _fused(weight: Any, bias: Any, norm: tuple[Any, ...], shape: list[int]) -> tuple[Any, Any]:
    mean, variance, eps, scale, shift = norm
    bias = factories.zeros_like(mean) if bias is None else bias
    scale = factories.ones_like(mean) if scale is None else scale
    shift = factories.zeros_like(mean) if shift is None else shift
    factor = scale * FUNCTIONS["rsqrt"](variance + eps)
    made = (weight * factor.reshape(shape)).to(dtype=weight.dtype)
    moved = ((bias - mean) * factor + shift).to(dtype=bias.dtype)
    return Parameter(made, weight.requires_grad), Parameter(moved, bias.requires_grad)
