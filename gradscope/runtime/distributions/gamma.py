"""The gamma distribution."""

from __future__ import annotations

from typing import Any

import gradscope.runtime as torch
from gradscope.runtime.distributions import constraints
from gradscope.runtime.distributions.exp_family import ExponentialFamily


class Gamma(ExponentialFamily):
    """Waiting times until the `concentration`-th event with a rate."""

    arg_constraints = {  # noqa: RUF012
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.nonnegative
    has_rsample = True
    batched = ("concentration", "rate")
    _mean_carrier_measure = 0
    concentration: Any
    rate: Any

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        shape = self._take(concentration=concentration, rate=rate)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.concentration / self.rate

    @property
    def mode(self) -> Any:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Any:
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Any = torch.Size()) -> Any:  # noqa: B008
        shape = self._extended_shape(sample_shape)
        value = torch._standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        value.detach().clamp_(min=torch.finfo(value.dtype).tiny)  # never zero; not recorded
        return value

    def log_prob(self, value: Any) -> Any:
        value = torch.as_tensor(value, dtype=self.rate.dtype)
        self._validate_sample(value)
        shape, rate = self.concentration, self.rate
        powers = torch.xlogy(shape, rate) + torch.xlogy(shape - 1, value)
        return powers - rate * value - torch.lgamma(shape)

    def entropy(self) -> Any:
        shape = self.concentration
        pulled = shape - torch.log(self.rate) + torch.lgamma(shape)
        return pulled + (1.0 - shape) * torch.digamma(shape)

    @property
    def _natural_params(self) -> Any:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return torch.lgamma(x + 1) + (x + 1) * torch.log(-y.reciprocal())

    def cdf(self, value: Any) -> Any:
        self._validate_sample(value)
        return torch.special.gammainc(self.concentration, self.rate * value)
