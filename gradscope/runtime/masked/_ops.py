"""`torch.masked._ops`: PyTorch's module of these functions."""

from __future__ import annotations

from gradscope.runtime.masked.averages import mean, median, std, var
from gradscope.runtime.masked.masks import (
    _canonical_dim,
    _combine_input_and_mask,
    _input_mask,
    _output_mask,
    _reduction_identity,
    _where,
)
from gradscope.runtime.masked.normalizations import (
    cumprod,
    cumsum,
    log_softmax,
    logaddexp,
    normalize,
    softmax,
    softmin,
)
from gradscope.runtime.masked.reductions import (
    amax,
    amin,
    argmax,
    argmin,
    logsumexp,
    norm,
    prod,
    sum,
)

__all__ = [
    "_canonical_dim",
    "_combine_input_and_mask",
    "_input_mask",
    "_output_mask",
    "_reduction_identity",
    "_where",
    "amax",
    "amin",
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]
