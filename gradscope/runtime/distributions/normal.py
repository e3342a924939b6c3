"""The normal distribution."""

from __future__ import annotations

import math
from typing import Any

import gradscope.runtime as torch
from gradscope.runtime.distributions.distribution import ByLocation
from gradscope.runtime.distributions.exp_family import ExponentialFamily
from gradscope.runtime.distributions.utils import standard_normal


class Normal(ByLocation, ExponentialFamily):
    """Numbers around `loc`, with a standard deviation of `scale`."""

    batched = ("loc", "scale")
    _mean_carrier_measure = 0

    @property
    def stddev(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        return self.stddev.pow(2)

    def sample(self, sample_shape: Any = torch.Size()) -> Any:  # noqa: B008
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            return torch.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Any = torch.Size()) -> Any:  # noqa: B008
        eps = standard_normal(self._extended_shape(sample_shape), self.loc)
        return self.loc + eps * self.scale

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        variance, logarithm = self.scale**2, self.scale.log()
        square = -((value - self.loc) ** 2)
        return square / (2 * variance) - logarithm - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value: Any) -> Any:
        self._validate_sample(value)
        return 0.5 * (1 + torch.erf((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value: Any) -> Any:
        return self.loc + self.scale * torch.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Any:
        return 0.5 + 0.5 * math.log(2 * math.pi) + torch.log(self.scale)

    @property
    def _natural_params(self) -> Any:
        return self.loc / self.scale.pow(2), -0.5 * self.scale.pow(2).reciprocal()

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return -0.25 * x.pow(2) / y + 0.5 * torch.log(-math.pi / y)
