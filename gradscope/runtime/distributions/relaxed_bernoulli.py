"""Continuous relaxations of the Bernoulli distribution."""

from __future__ import annotations

from typing import Any

import gradscope.runtime as torch
from gradscope.runtime.distributions import constraints
from gradscope.runtime.distributions.distribution import ByProbs
from gradscope.runtime.distributions.relaxed import Relaxed
from gradscope.runtime.distributions.transforms import SigmoidTransform
from gradscope.runtime.distributions.utils import broadcast_all, clamp_probs


class LogitRelaxedBernoulli(ByProbs):
    """The logits of RelaxedBernoulli."""

    arg_constraints = {  # noqa: RUF012
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.real
    batched = ("probs", "logits")

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        super().__init__(self._take_either(probs, logits), validate_args=validate_args)

    def _expand_parts(self, new: Any, batch_shape: Any) -> None:
        super()._expand_parts(new, batch_shape)
        new.temperature = self.temperature

    def rsample(self, sample_shape: Any = torch.Size()) -> Any:  # noqa: B008
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        unit = clamp_probs(torch.rand(shape, dtype=probs.dtype))
        odds = unit.log() - (-unit).log1p() + probs.log() - (-probs).log1p()
        return odds / self.temperature

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        apart = logits - value.mul(self.temperature)
        return self.temperature.log() + apart - 2 * apart.exp().log1p()


class RelaxedBernoulli(Relaxed):
    """Numbers between 0 and 1; closer to the ends for lower temperatures."""

    arg_constraints = {  # noqa: RUF012
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.unit_interval
    batched = ()

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)
