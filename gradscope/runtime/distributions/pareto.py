"""The Pareto distribution."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.distributions import constraints
from gradscope.runtime.distributions.exponential import Exponential
from gradscope.runtime.distributions.transformed_distribution import TransformedDistribution
from gradscope.runtime.distributions.transforms import AffineTransform, ExpTransform
from gradscope.runtime.distributions.utils import broadcast_all


class Pareto(TransformedDistribution):
    """Numbers from `scale` up, with tails that fall with the power `alpha`."""

    arg_constraints = {  # noqa: RUF012
        "alpha": constraints.positive,
        "scale": constraints.positive,
    }
    batched = ("scale", "alpha")

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        transforms = [ExpTransform(), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, transforms, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Any:
        alpha = self.alpha.clamp(min=1)
        return alpha * self.scale / (alpha - 1)

    @property
    def mode(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        alpha = self.alpha.clamp(min=2)
        return self.scale.pow(2) * alpha / ((alpha - 1).pow(2) * (alpha - 2))

    def entropy(self) -> Any:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())
