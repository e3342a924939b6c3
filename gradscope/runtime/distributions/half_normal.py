"""The half-normal distribution."""

from __future__ import annotations

import math
from typing import Any

import gradscope.runtime as torch
from gradscope.runtime.distributions import constraints
from gradscope.runtime.distributions.normal import Normal
from gradscope.runtime.distributions.transformed_distribution import TransformedDistribution
from gradscope.runtime.distributions.transforms import AbsTransform


class Half(TransformedDistribution):
    """Absolute values of numbers from a symmetric distribution."""

    arg_constraints = {"scale": constraints.positive}  # noqa: RUF012
    support = constraints.nonnegative
    has_rsample = True

    @property
    def scale(self) -> Any:
        return self.base_dist.scale

    @property
    def mode(self) -> Any:
        return torch.zeros_like(self.scale)

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        value = torch.as_tensor(value, dtype=self.scale.dtype)
        folded = self.base_dist.log_prob(value) + math.log(2)
        return torch.where(value >= 0, folded, -math.inf)

    def cdf(self, value: Any) -> Any:
        self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob: Any) -> Any:
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Any:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(Half):
    """Absolute values of normal numbers."""

    batched = ()

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Any:
        return self.scale.pow(2) * (1 - 2 / math.pi)
