"""The Weibull distribution."""

from __future__ import annotations

from typing import Any

import gradscope.runtime as torch
from gradscope.runtime.distributions import constraints
from gradscope.runtime.distributions.exponential import Exponential
from gradscope.runtime.distributions.transformed_distribution import TransformedDistribution
from gradscope.runtime.distributions.transforms import AffineTransform, PowerTransform
from gradscope.runtime.distributions.utils import broadcast_all, euler_constant


class Weibull(TransformedDistribution):
    """Waiting times of events whose rate changes with time."""

    arg_constraints = {  # noqa: RUF012
        "scale": constraints.positive,
        "concentration": constraints.positive,
    }
    support = constraints.positive
    batched = ("scale", "concentration", "concentration_reciprocal")

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(torch.ones_like(self.scale), validate_args=validate_args)
        transforms = [
            PowerTransform(exponent=self.concentration_reciprocal),
            AffineTransform(loc=0, scale=self.scale),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.scale * torch.exp(torch.lgamma(1 + self.concentration_reciprocal))

    @property
    def mode(self) -> Any:
        less = (self.concentration - 1) / self.concentration
        return self.scale * less ** self.concentration.reciprocal()

    @property
    def variance(self) -> Any:
        inverse = self.concentration_reciprocal
        second = torch.exp(torch.lgamma(1 + 2 * inverse))
        return self.scale.pow(2) * (second - torch.exp(2 * torch.lgamma(1 + inverse)))

    def entropy(self) -> Any:
        inverse = self.concentration_reciprocal
        return euler_constant * (1 - inverse) + torch.log(self.scale * inverse) + 1
