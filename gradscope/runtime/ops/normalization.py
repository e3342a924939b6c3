"""Activations brought to mean 0 and variance 1."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.dims import text
from gradscope.runtime.kernels.support import HALVES
from gradscope.runtime.op import (
    INTERNAL,
    family,
    hidden,
    joint,
    jvp,
    op,
    outputs,
)
from gradscope.runtime.ops import FUNCTIONS, nn_function
from gradscope.runtime.ops.words import total


def _layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    dims = _dims(input, normalized_shape)
    wide = input.astype(np.float32) if input.dtype in HALVES else input
    mean = wide.mean(dims, keepdims=True)
    centred = wide - mean
    rstd = 1 / np.sqrt((centred * centred).mean(dims, keepdims=True) + wide.dtype.type(eps))
    made = centred * rstd
    if weight is not None:
        made = made * weight
    if bias is not None:
        made = made + bias
    return made.astype(input.dtype, copy=False), mean, rstd


def _dims(input, normalized_shape):
    count = len(normalized_shape)
    if count < 1:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
            "element, but got normalized_shape = []"
        )
    if input.shape[-count:] != tuple(normalized_shape):
        wanted = ", ".join(["*", *map(str, normalized_shape)])
        raise RuntimeError(
            f"Given normalized_shape={text(normalized_shape)}, expected input with shape "
            f"[{wanted}], but got input of size{text(input.shape)}"
        )
    return tuple(range(input.ndim - count, input.ndim))


def _layer_norm_backward(grad, input, normalized_shape, result1, result2, weight, bias, eps, needs):
    """The gradients of input, weight and bias; the engine sums the last two over the batch.

    Mean and deviation depend on the input, so that under create_graph they are computed once more.
    """
    incoming, dims = grad[0], tuple(range(-len(normalized_shape), 0))
    mean, rstd = result1, result2
    if input.__class__ is not np.ndarray:
        mean = input.mean(dims, keepdims=True)
        rstd = (((input - mean) ** 2).mean(dims, keepdims=True) + eps) ** -0.5
    normal = (input - mean) * rstd
    scaled = incoming if weight is None else incoming * weight
    to_input = None
    if needs[0]:
        along = (scaled * normal).mean(dims, keepdims=True)
        to_input = (scaled - scaled.mean(dims, keepdims=True) - normal * along) * rstd
    return (
        to_input,
        incoming * normal if needs[1] else None,
        incoming if needs[2] else None,
    )


def _layer_norm_tangent(input_t, weight_t, bias_t, input, normalized_shape, weight, eps):
    dims = tuple(range(-len(normalized_shape), 0))
    centred = input - input.mean(dims, keepdims=True)
    rstd = ((centred * centred).mean(dims, keepdims=True) + eps) ** -0.5
    normal = centred * rstd
    terms = [] if bias_t is None else [bias_t]
    if weight_t is not None:
        terms.append(normal * weight_t)
    if input_t is not None:
        along = (input_t * normal).mean(dims, keepdims=True)
        turned = (input_t - input_t.mean(dims, keepdims=True) - normal * along) * rstd
        terms.append(turned if weight is None else turned * weight)
    return total(terms), None, None


native_layer_norm = op(
    "NativeLayerNormBackward0",
    _layer_norm,
    jvp(_layer_norm_tangent),
    INTERNAL,
    outputs("result0", "result1", "result2", without=("result1", "result2")),
    hidden("eps"),
    joint("input", "weight", "bias", by=_layer_norm_backward),
)
family(globals())


@nn_function
def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Each sample over its last dims."""
    return native_layer_norm(input, tuple(normalized_shape), weight, bias, eps)[0]


def _top_layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    return layer_norm(input, normalized_shape, weight, bias, eps)


FUNCTIONS["layer_norm"] = _top_layer_norm
