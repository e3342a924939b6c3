"""What relaxed distributions share: they are those of their scores, transformed."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.distributions.transformed_distribution import TransformedDistribution


class Relaxed(TransformedDistribution):
    """A distribution near that of classes; its parameters are those of its base."""

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
