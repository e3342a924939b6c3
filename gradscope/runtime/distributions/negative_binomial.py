"""The negative binomial distribution."""

from __future__ import annotations

from typing import Any

import gradscope.runtime as torch
from gradscope.runtime.distributions import constraints
from gradscope.runtime.distributions.distribution import ByProbs
from gradscope.runtime.distributions.gamma import Gamma
from gradscope.runtime.distributions.utils import lazy_property


class NegativeBinomial(ByProbs):
    """The number of successes before `total_count` failures."""

    arg_constraints = {  # noqa: RUF012
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    batched = ("total_count", "probs", "logits")
    total_count: Any

    def __init__(
        self,
        total_count: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        shape = self._take_either(probs, logits, total_count)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.total_count * torch.exp(self.logits)

    @property
    def mode(self) -> Any:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Any:
        return self.mean / torch.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self) -> Any:
        rate = torch.exp(-self.logits)
        return Gamma(concentration=self.total_count, rate=rate, validate_args=False)

    def sample(self, sample_shape: Any = torch.Size()) -> Any:  # noqa: B008
        with torch.no_grad():
            return torch.poisson(self._gamma.sample(sample_shape=sample_shape))

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        count, logsigmoid = self.total_count, torch.nn.functional.logsigmoid
        trials = count * logsigmoid(-self.logits) + value * logsigmoid(self.logits)
        ways = -torch.lgamma(count + value) + torch.lgamma(1.0 + value) + torch.lgamma(count)
        return trials - ways.masked_fill(count + value == 0.0, 0.0)
