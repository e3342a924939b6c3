"""Smooth activations: tanh, sigmoid, gelu, silu, mish, softplus, logsigmoid, elu and similar ones.

The derivative of each is an operation, so that a second derivative has PyTorch's node.
"""

from __future__ import annotations

import math

import numpy as np

from gradscope.runtime.core.calls.declare import (
    ELEMENTWISE,
    FLOATS,
    INTERNAL,
    TRANSPOSED,
    family,
    inplace,
    jvp,
    op,
    outputs,
    refuses,
    tensors,
    w,
)
from gradscope.runtime.core.kernels.arrays import elementwise as plain
from gradscope.runtime.core.kernels.support import HALVES
from gradscope.runtime.core.ops.in_formulas import MINUS_TWO, ONE, function_alias, zeros_like
from gradscope.runtime.core.rows.traits import ROW_BY_ROW
from gradscope.runtime.core.tensors.dims import wrapped

ndarray, multiply, subtract = np.ndarray, np.multiply, np.subtract


def _floats_only(name):
    return refuses("cbiu", f"\"{name}\" not implemented for '{{kind}}'")


def _tanh_backward(grad_output, output):
    return (ONE[output.dtype] - output * output) * grad_output


def _through_tanh(grad, result):
    if grad.__class__ is ndarray:  # the result of the word, in fewer steps
        bent = multiply(result, result)
        if bent.__class__ is ndarray:  # without dims it is a number
            subtract(ONE[result.dtype], bent, bent)
            return multiply(bent, grad)
    return w.tanh_backward(grad, result)


def _sigmoid(self):
    return np.reciprocal(np.exp(np.negative(self)) + ONE[self.dtype])


def _sigmoid_backward(grad_output, output):
    return (ONE[output.dtype] - output) * output * grad_output


tanh = op(
    "TanhBackward0",
    np.tanh,
    ELEMENTWISE,
    FLOATS,
    self=_through_tanh,
)
tanh_backward = op(
    "TanhBackwardBackward0",
    _tanh_backward,
    ELEMENTWISE,
    INTERNAL,
    grad_output=lambda grad, output: w.tanh_backward(grad, output),
    output=lambda grad, grad_output, output: (
        grad * (output * MINUS_TWO[output.dtype] * grad_output)
    ),
)
sigmoid = op(
    "SigmoidBackward0",
    _sigmoid,
    ELEMENTWISE,
    FLOATS,
    self=lambda grad, result: w.sigmoid_backward(grad, result),
)
sigmoid_backward = op(
    "SigmoidBackwardBackward0",
    _sigmoid_backward,
    ELEMENTWISE,
    INTERNAL,
    grad_output=lambda grad, output: w.sigmoid_backward(grad, output),
    output=lambda grad, grad_output, output: (
        grad * grad_output * (output * MINUS_TWO[output.dtype] + ONE[output.dtype])
    ),
)


def _gelu_curvature(x, approximate):
    """The second derivative of gelu."""
    if approximate == "none":
        density = w.exp(x * x * -0.5) / math.sqrt(2 * math.pi)
        return density * (2 - x * x)
    slope, cubic = math.sqrt(2 / math.pi), 0.044715
    inner = w.tanh((x + x * x * x * cubic) * slope)
    inner_slope = (x * x * (3 * cubic) + 1) * slope
    inner_curvature = x * (6 * cubic * slope)
    steep = 1 - inner * inner
    bend = steep * inner_curvature - inner * steep * inner_slope * inner_slope * 2
    return steep * inner_slope + x * bend * 0.5


gelu = op(
    "GeluBackward0",
    lambda self, *, approximate="none": plain.gelu(self, _known(approximate)),
    ELEMENTWISE,
    INTERNAL,
    _floats_only("GeluKernelImpl"),
    self=lambda grad, self, approximate: w.gelu_backward(grad, self, approximate=approximate),
)
gelu_backward = op(
    "GeluBackwardBackward0",
    lambda grad_output, self, *, approximate="none": plain.gelu_backward(
        grad_output, self, approximate
    ),
    ELEMENTWISE,
    INTERNAL,
    grad_output=lambda grad, self, approximate: w.gelu_backward(
        grad, self, approximate=approximate
    ),
    self=lambda grad, grad_output, self, approximate: (
        grad * grad_output * _gelu_curvature(self, approximate)
    ),
)


def _known(approximate):
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return approximate


def _silu(self):
    if self.dtype.char == "f":
        return plain.silu(self)
    return self / (np.exp(np.negative(self)) + ONE[self.dtype])


def _silu_slope(grad, self):
    if grad.__class__ is np.ndarray and (made := plain.silu_backward(grad, self)) is not None:
        return made
    share, one = w.sigmoid(self), ONE[self.dtype]
    return grad * share * (self * (one - share) + one)


def _mish_slope(grad, self):
    bent, share = w.tanh(w.log1p(w.exp(self))), w.sigmoid(self)
    return grad * (bent + self * share * (ONE[self.dtype] - bent * bent))


silu = op(
    "SiluBackward0",
    _silu,
    ELEMENTWISE,
    INTERNAL,
    refuses("biu", "\"silu_cpu\" not implemented for '{kind}'"),
    self=_silu_slope,
)
mish = op(
    "MishBackward0",
    lambda self: self * np.tanh(plain.softplus(self)),
    ELEMENTWISE,
    INTERNAL,
    _floats_only("mish_cpu"),
    self=_mish_slope,
)


def _softplus_backward(grad_output, self, beta, threshold):
    scaled = np.exp(self * beta)
    return np.where(self * beta > threshold, grad_output, grad_output * (scaled / (scaled + 1)))


def _softplus_curvature(grad, self, beta, threshold):
    share = w.sigmoid(self * beta)
    slope = grad * share * (1 - share) * beta
    return w.where(self * beta > threshold, zeros_like(grad), slope)


softplus = op(
    "SoftplusBackward0",
    lambda self, beta=1, threshold=20: plain.softplus(self, beta, threshold),
    ELEMENTWISE,
    INTERNAL,
    _floats_only("softplus_cpu"),
    self=lambda grad, self, beta, threshold: w.softplus_backward(grad, self, beta, threshold),
)
softplus_backward = op(
    "SoftplusBackwardBackward0",
    _softplus_backward,
    ELEMENTWISE,
    INTERNAL,
    grad_output=lambda grad, self, beta, threshold: w.softplus_backward(
        grad, self, beta, threshold
    ),
    self=lambda grad, grad_output, self, beta, threshold: _softplus_curvature(
        grad * grad_output, self, beta, threshold
    ),
)


def _log_sigmoid(self):
    if self.dtype in HALVES:
        made, buffer = _log_sigmoid(self.astype(np.float32))
        return made.astype(self.dtype), buffer.astype(self.dtype)
    buffer = np.exp(-np.abs(self))
    return np.asarray(np.minimum(self, 0) - np.log1p(buffer)), np.asarray(buffer)


def _log_sigmoid_backward(grad_output, self, buffer):
    share = buffer / (buffer + 1)
    return grad_output * np.where(self < 0, 1 - share, share)


log_sigmoid_forward = op(
    "LogSigmoidBackward0",
    _log_sigmoid,
    ELEMENTWISE,
    INTERNAL,
    _floats_only("log_sigmoid_cpu"),
    outputs("output", "buffer", without=("buffer",)),
    ROW_BY_ROW,
    self=lambda grads, self, buffer: w.log_sigmoid_backward(grads[0], self, buffer),
)
log_sigmoid_backward = op(
    "LogSigmoidBackwardBackward0",
    lambda grad_output, self, buffer: _log_sigmoid_backward(grad_output, self, buffer),
    ELEMENTWISE,
    INTERNAL,
    tensors("buffer"),
    grad_output=lambda grad, self, buffer: w.log_sigmoid_backward(grad, self, buffer),
    self=lambda grad, grad_output, self: -_sigmoid_slope(grad * grad_output, self),
)


def _sigmoid_slope(grad, self):
    share = w.sigmoid(self)
    return grad * share * (1 - share)


def _elu(self, alpha=1.0, scale=1.0, input_scale=1.0):
    if self.dtype in HALVES:
        return _elu(self.astype(np.float32), alpha, scale, input_scale).astype(self.dtype)
    bent = np.expm1(np.minimum(self, 0) * input_scale) * (alpha * scale)
    return np.where(self > 0, self * scale, bent)


def _elu_backward(grad_output, alpha, scale, input_scale, is_result, self_or_result):
    kind = grad_output.dtype
    if is_result:
        bent = (self_or_result + alpha * scale) * input_scale
    else:
        bent = np.exp(np.minimum(self_or_result, 0) * input_scale) * (alpha * scale * input_scale)
    return (grad_output * np.where(self_or_result > 0, scale, bent)).astype(kind, copy=False)


def _elu_curvature(grad, grad_output, alpha, scale, input_scale, is_result, self_or_result):
    both = grad * grad_output
    if is_result:
        bent = both * input_scale
    else:
        steep = input_scale * input_scale * alpha * scale
        bent = both * w.exp(self_or_result * input_scale) * steep
    return w.where(self_or_result > 0, zeros_like(both), bent)


elu = op(
    "EluBackward0",
    _elu,
    ELEMENTWISE,
    INTERNAL,
    _floats_only("elu_cpu"),
    self=lambda grad, self, alpha, scale, input_scale: w.elu_backward(
        grad, alpha, scale, input_scale, False, self
    ),
)
elu__from_result = op(
    "EluBackward1",
    _elu,
    ELEMENTWISE,
    INTERNAL,
    _floats_only("elu_cpu"),
    self=lambda grad, result, alpha, scale, input_scale: w.elu_backward(
        grad, alpha, scale, input_scale, True, result
    ),
)
elu_backward = op(
    "EluBackwardBackward0",
    _elu_backward,
    ELEMENTWISE,
    INTERNAL,
    grad_output=lambda grad, alpha, scale, input_scale, is_result, self_or_result: w.elu_backward(
        grad, alpha, scale, input_scale, is_result, self_or_result
    ),
    self_or_result=_elu_curvature,
)
celu = op(
    "CeluBackward0",
    lambda self, alpha=1.0: _elu(self, alpha, 1.0, 1.0 / alpha),
    ELEMENTWISE,
    INTERNAL,
    _floats_only("elu_cpu"),
    self=lambda grad, self, alpha: w.elu_backward(grad, alpha, 1.0, 1.0 / alpha, False, self),
)
celu__from_result = op(
    "CeluBackward1",
    celu.op.kernel,
    ELEMENTWISE,
    INTERNAL,
    _floats_only("elu_cpu"),
    self=lambda grad, result, alpha: w.elu_backward(grad, alpha, 1.0, 1.0 / alpha, True, result),
)


def _gates(self, dim):
    """The two halves of a tensor along a dim; the second one is the gate."""
    dim = wrapped(dim, self.ndim)
    size = self.shape[dim]
    if size % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {size}")
    before = (slice(None),) * dim
    return self[(*before, slice(0, size // 2))], self[(*before, slice(size // 2, size))]


def _glu(self, dim=-1):
    if self.ndim == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    value, gate = _gates(self, dim)
    return value * _sigmoid(gate)


def _glu_backward(grad_output, self, dim):
    value, gate = _gates(self, dim)
    share = _sigmoid(gate)
    return np.concatenate([grad_output * share, grad_output * value * share * (1 - share)], dim)


def _glu_turn(grad, self, dim):
    """The gradient of glu's backward by its incoming gradient."""
    (grad, grad_gate), (value, gate) = _gates(grad, dim), _gates(self, dim)
    share = w.sigmoid(gate)
    return grad * share + grad_gate * value * share * (1 - share)


def _glu_curvature(grad, grad_output, self, dim):
    """The gradient of glu's backward by the input."""
    (grad, grad_gate), (value, gate) = _gates(grad, dim), _gates(self, dim)
    share = w.sigmoid(gate)
    slope = share * (1 - share) * grad_output
    return w.cat([grad_gate * slope, (grad + grad_gate * value * (1 - 2 * share)) * slope], dim)


glu = op(
    "GluBackward0",
    _glu,
    jvp(lambda self_t, self, dim: _glu_turn(self_t, self, dim)),
    INTERNAL,
    _floats_only("glu_cpu"),
    self=lambda grad, self, dim: w.glu_backward(grad, self, dim),
)
glu_backward = op(
    "GluBackwardBackward0",
    _glu_backward,
    TRANSPOSED,
    INTERNAL,
    grad_output=_glu_turn,
    self=_glu_curvature,
)

tanh_ = inplace(tanh)
sigmoid_ = inplace(sigmoid)
silu_ = inplace(silu)
mish_ = inplace(mish)
elu_ = inplace(elu__from_result)
celu_ = inplace(celu__from_result)
family(globals())

function_alias(sigmoid, "special.expit")
