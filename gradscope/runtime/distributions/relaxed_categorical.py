"""Continuous relaxations of the categorical distribution."""

from __future__ import annotations

from typing import Any

import gradscope.runtime as torch
from gradscope.runtime.distributions import constraints
from gradscope.runtime.distributions.categorical import ByCategorical, Categorical
from gradscope.runtime.distributions.relaxed import Relaxed
from gradscope.runtime.distributions.transforms import ExpTransform
from gradscope.runtime.distributions.utils import broadcast_all, clamp_probs


class ExpRelaxedCategorical(ByCategorical):
    """The logarithms of RelaxedOneHotCategorical's samples."""

    support = constraints.real_vector
    has_rsample = True
    batched = ()

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        super().__init__(validate_args)

    def _expand_parts(self, new: Any, batch_shape: Any) -> None:
        super()._expand_parts(new, batch_shape)
        new.temperature = self.temperature

    def rsample(self, sample_shape: Any = torch.Size()) -> Any:  # noqa: B008
        shape = self._extended_shape(sample_shape)
        unit = clamp_probs(torch.rand(shape, dtype=self.logits.dtype))
        gumbels = -((-(unit.log())).log())
        scores = (self.logits + gumbels) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        count = self._categorical._num_events
        logits, value = broadcast_all(self.logits, value)
        whole = torch.full_like(self.temperature, float(count)).lgamma()
        whole = whole - self.temperature.log().mul(-(count - 1))
        score = logits - value.mul(self.temperature)
        return (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1) + whole


class RelaxedOneHotCategorical(Relaxed):
    """Vectors that sum to one; closer to one-hot for lower temperatures."""

    arg_constraints = Categorical.arg_constraints
    support = constraints.simplex
    batched = ()

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)
