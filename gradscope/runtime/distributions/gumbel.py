"""The Gumbel distribution."""

from __future__ import annotations

import math
from typing import Any

import gradscope.runtime as torch
from gradscope.runtime.distributions import constraints
from gradscope.runtime.distributions.transformed_distribution import TransformedDistribution
from gradscope.runtime.distributions.transforms import AffineTransform, ExpTransform
from gradscope.runtime.distributions.uniform import Uniform
from gradscope.runtime.distributions.utils import broadcast_all, euler_constant, is_number


class Gumbel(TransformedDistribution):
    """The distribution of the maximum of many numbers."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012
    support = constraints.real
    batched = ("loc", "scale")

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        reach = torch.finfo(self.loc.dtype)
        low, high = reach.tiny, 1 - reach.eps
        if not (is_number(loc) and is_number(scale)):
            low, high = (torch.full_like(self.loc, bound) for bound in (low, high))
        transforms = [
            ExpTransform().inv,
            AffineTransform(loc=0, scale=-torch.ones_like(self.scale)),
            ExpTransform().inv,
            AffineTransform(loc=loc, scale=-self.scale),
        ]
        base = Uniform(low, high, validate_args=validate_args)
        super().__init__(base, transforms, validate_args=validate_args)

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    @property
    def mean(self) -> Any:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def stddev(self) -> Any:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Any:
        return self.stddev.pow(2)

    def entropy(self) -> Any:
        return self.scale.log() + (1 + euler_constant)
