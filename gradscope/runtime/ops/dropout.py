"""Elements left out at random: dropout, of elements and of whole channels."""

from __future__ import annotations

from gradscope.runtime.ops import FUNCTIONS, nn_function
from gradscope.runtime.placement import wrapped_on
from gradscope.runtime.random import chosen


def _check(p):
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _noise(input, shape, p):
    """1 / (1 - p) where an element stays, 0 where it goes."""
    kept = chosen(None).bernoulli(1 - p, shape).astype(input._array.dtype)
    kept /= kept.dtype.type(1 - p)
    return wrapped_on(kept, input.device)


def _dropped(input, p, train, inplace, shape):
    _check(p)
    if not train or p == 0 or input.numel() == 0:
        return input
    noise = input.new_zeros(()) if p == 1 else _noise(input, shape, p)
    return input.mul_(noise) if inplace else input.mul(noise)


@nn_function
def dropout(input, p=0.5, training=True, inplace=False):
    """Every element left out with probability p, the others raised so that the mean stays."""
    return _dropped(input, p, training, inplace, input._array.shape)


def _dropout(input, p, train):
    return dropout(input, p, train)


FUNCTIONS["dropout"] = _dropout


def _channels(name):
    def channel_dropout(input, p=0.5, training=True, inplace=False):
        shape = input._array.shape
        return _dropped(input, p, training, inplace, (*shape[:2], *(1 for _ in shape[2:])))

    channel_dropout.__name__ = name
    return nn_function(channel_dropout)


dropout1d = _channels("dropout1d")
dropout2d = _channels("dropout2d")
dropout3d = _channels("dropout3d")
