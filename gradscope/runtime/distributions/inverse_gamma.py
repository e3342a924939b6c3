"""The inverse gamma distribution."""

from __future__ import annotations

import math
from typing import Any

import gradscope.runtime as torch
from gradscope.runtime.distributions import constraints
from gradscope.runtime.distributions.gamma import Gamma
from gradscope.runtime.distributions.transformed_distribution import TransformedDistribution
from gradscope.runtime.distributions.transforms import PowerTransform


class InverseGamma(TransformedDistribution):
    """Reciprocals of gamma numbers."""

    arg_constraints = {  # noqa: RUF012
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.positive
    has_rsample = True
    batched = ()

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        turned = PowerTransform(-base.rate.new_ones(()))
        super().__init__(base, turned, validate_args=validate_args)

    @property
    def concentration(self) -> Any:
        return self.base_dist.concentration

    @property
    def rate(self) -> Any:
        return self.base_dist.rate

    @property
    def mean(self) -> Any:
        shape = self.concentration
        return torch.where(shape > 1, self.rate / (shape - 1), math.inf)

    @property
    def mode(self) -> Any:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Any:
        shape = self.concentration
        found = self.rate.square() / ((shape - 1).square() * (shape - 2))
        return torch.where(shape > 2, found, math.inf)

    def entropy(self) -> Any:
        shape = self.concentration
        pulled = shape + self.rate.log() + shape.lgamma()
        return pulled - (1 + shape) * shape.digamma()
