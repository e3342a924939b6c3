"""The Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

import gradscope.runtime as torch
from gradscope.runtime.distributions.distribution import ByLocation


class Cauchy(ByLocation):
    """Numbers around `loc` with tails so heavy that they have no mean."""

    batched = ("loc", "scale")

    @property
    def mean(self) -> Any:
        return self._constant(math.nan, self.loc)

    @property
    def variance(self) -> Any:
        return self._constant(math.inf, self.loc)

    def rsample(self, sample_shape: Any = torch.Size()) -> Any:  # noqa: B008
        eps = self.loc.new(self._extended_shape(sample_shape)).cauchy_()
        return self.loc + eps * self.scale

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        most = -math.log(math.pi) - self.scale.log()
        return most - (((value - self.loc) / self.scale) ** 2).log1p()

    def cdf(self, value: Any) -> Any:
        self._validate_sample(value)
        return torch.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Any) -> Any:
        return torch.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Any:
        return math.log(4 * math.pi) + self.scale.log()
