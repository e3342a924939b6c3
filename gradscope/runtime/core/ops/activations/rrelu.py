"""Leaky ReLU with random slopes: rrelu. And softmax with noise: gumbel_softmax."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import (
    ELEMENTWISE,
    INTERNAL,
    family,
    inplace,
    op,
    tensors,
    w,
)
from gradscope.runtime.core.dtypes.memory_formats import contiguous_format
from gradscope.runtime.core.ops.in_formulas import zeros_like
from gradscope.runtime.core.rows.offered import FUNCTIONS, NN_FUNCTIONS, nn_function
from gradscope.runtime.core.state.warned import warn
from gradscope.runtime.core.tensors.default_generator import chosen
from gradscope.runtime.core.tensors.making import factories
from gradscope.runtime.core.tensors.placement import wrapped_on

LOWER, UPPER = 0.125, 0.3333333333333333
NARROW = 1e-6
"""Distance of bounds below which no random slope is drawn."""


def _drawn(noise, lower, upper, training):
    return training and upper - lower > NARROW


def _rectified(self, noise, lower, upper, training):
    slope = noise if training else np.asarray((lower + upper) / 2, self.dtype)
    return (
        np.where(self <= 0, self * slope, self)
        if training
        else np.where(self > 0, self, self * slope)
    )


def _slope(grad, self, noise, lower, upper, training, is_result=False):
    if _drawn(noise, lower, upper, training):
        return grad * noise
    return w.leaky_relu_backward(grad, self, (lower + upper) / 2)


def _back(grad_output, self, noise, lower, upper, training, self_is_result):
    return _slope(grad_output, self, noise, lower, upper, training)


rrelu_with_noise = op(
    "RreluWithNoiseBackward0",
    _rectified,
    ELEMENTWISE,
    INTERNAL,
    tensors("noise"),
    self=lambda grad, self, noise, lower, upper, training: w.rrelu_with_noise_backward(
        grad, self, noise, lower, upper, training, False
    ),
)
rrelu_with_noise__from_result = op(
    "RreluWithNoiseBackward1",
    _rectified,
    ELEMENTWISE,
    INTERNAL,
    tensors("noise"),
    self=lambda grad, result, noise, lower, upper, training: w.rrelu_with_noise_backward(
        grad, result, noise, lower, upper, training, True
    ),
)
rrelu_with_noise_ = inplace(rrelu_with_noise__from_result)
rrelu_with_noise_backward = op(
    "RreluWithNoiseBackwardBackward0",
    _back,
    ELEMENTWISE,
    INTERNAL,
    tensors("noise"),
    grad_output=lambda grad, self, noise, lower, upper, training: w.rrelu_with_noise_backward(
        grad, self, noise, lower, upper, training, False
    ),
    self=zeros_like,
)
family(globals())


def _noise(input, lower, upper, training, generator):
    """A random slope for each element that is not positive, in order; 1 elsewhere."""
    array = input._array
    if not training:
        return wrapped_on(np.zeros(array.shape, array.dtype), input.device)
    made = np.ones(array.shape, array.dtype)
    below = array <= 0
    count = int(below.sum())
    made[below] = chosen(generator).uniform((count,), np.dtype(np.float64), lower, upper)
    return wrapped_on(made, input.device)


def _check(lower, upper):
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")


def _plain(input, lower=LOWER, upper=UPPER, training=False, generator=None):
    _check(lower, upper)
    noise = _noise(input, lower, upper, training, generator)
    return rrelu_with_noise(input, noise, lower, upper, training)


def _twin(input, lower=LOWER, upper=UPPER, training=False, generator=None):
    _check(lower, upper)
    noise = _noise(input, lower, upper, training, generator)
    return rrelu_with_noise_(input, noise, lower, upper, training)


for _name, _made in (("rrelu", _plain), ("rrelu_", _twin)):
    _made.__name__ = _made.__qualname__ = _name
    FUNCTIONS[_name] = _made
NN_FUNCTIONS["rrelu_"] = _twin


@nn_function
def rrelu(input, lower=LOWER, upper=UPPER, training=False, inplace=False):
    """Negative elements times a random slope between two bounds; times their mean in evaluation."""
    return (_twin if inplace else _plain)(input, lower, upper, training)


@nn_function
def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """A differentiable sample of the categories with these scores."""
    if eps != 1e-10:
        warn("`eps` parameter is deprecated and has no effect.")
    noise = -factories.empty_like(logits).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    best = soft.max(dim, keepdim=True)[1]
    chosen_one = factories.zeros_like(logits, memory_format=contiguous_format).scatter_(
        dim, best, 1.0
    )
    return chosen_one - soft.detach() + soft
