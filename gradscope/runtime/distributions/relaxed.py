"""Base of relaxed distributions: transformed distributions of scores."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.distributions.transformed_distribution import TransformedDistribution


class Relaxed(TransformedDistribution):
    """A continuous relaxation of a categorical distribution, with the parameters of its base."""

    has_rsample = True

    @property
    def temperature(self) -> Any:
        return self.base_dist.temperature

    @property
    def logits(self) -> Any:
        return self.base_dist.logits

    @property
    def probs(self) -> Any:
        return self.base_dist.probs
