"""The Bernoulli distribution."""

from __future__ import annotations

import math
from typing import Any

import gradscope.runtime as torch
from gradscope.runtime.distributions import constraints
from gradscope.runtime.distributions.distribution import ByProbs
from gradscope.runtime.distributions.exp_family import ExponentialFamily
from gradscope.runtime.distributions.utils import broadcast_all


def cross_entropy(logits: Any, target: Any) -> Any:
    """The binary cross entropy of each element."""
    return torch.nn.functional.binary_cross_entropy_with_logits(logits, target, reduction="none")


class Bernoulli(ByProbs, ExponentialFamily):
    """1 with probability `probs`, otherwise 0."""

    arg_constraints = {  # noqa: RUF012
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.boolean
    has_enumerate_support = True
    batched = ("probs", "logits")
    _mean_carrier_measure = 0

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(self._take_either(probs, logits), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Any:
        mode = (self.probs >= 0.5).to(self.probs)
        mode[self.probs == 0.5] = math.nan
        return mode

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = torch.Size()) -> Any:  # noqa: B008
        with torch.no_grad():
            return torch.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        return -cross_entropy(*broadcast_all(self.logits, value))

    def entropy(self) -> Any:
        return cross_entropy(self.logits, self.probs)

    def enumerate_support(self, expand: bool = True) -> Any:
        return self._enumerated(torch.arange(2, dtype=self._param.dtype), expand=expand)

    @property
    def _natural_params(self) -> Any:
        return (torch.logit(self.probs),)

    def _log_normalizer(self, x: Any) -> Any:
        return torch.log1p(torch.exp(x))
