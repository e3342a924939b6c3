"""`torch.masked`: reductions and the like that leave out the elements a mask says False of."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.errors import missing
from gradscope.runtime.masked._ops import (
    _canonical_dim as _canonical_dim,
    _combine_input_and_mask as _combine_input_and_mask,
    _input_mask as _input_mask,
    _output_mask as _output_mask,
    _reduction_identity as _reduction_identity,
    _where as _where,
    amax,
    amin,
    argmax,
    argmin,
    cumprod,
    cumsum,
    log_softmax,
    logaddexp,
    logsumexp,
    mean,
    median,
    norm,
    normalize,
    prod,
    softmax,
    softmin,
    std,
    sum,
    var,
)

__all__ = [
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


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.masked", name, list(globals()))
