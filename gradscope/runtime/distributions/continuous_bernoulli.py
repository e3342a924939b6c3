"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from typing import Any

import gradscope.runtime as torch
from gradscope.runtime.distributions import constraints
from gradscope.runtime.distributions.bernoulli import cross_entropy
from gradscope.runtime.distributions.distribution import ByProbs
from gradscope.runtime.distributions.exp_family import ExponentialFamily
from gradscope.runtime.distributions.utils import (
    broadcast_all,
    clamp_probs,
    lazy_property,
    logits_to_probs,
)


class ContinuousBernoulli(ByProbs, ExponentialFamily):
    """Numbers between 0 and 1. Near a half, where formulas are unstable, it uses series."""

    arg_constraints = {  # noqa: RUF012
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.unit_interval
    has_rsample = True
    batched = ("probs", "logits")
    _mean_carrier_measure = 0

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        shape = self._take_either(probs, logits)
        if probs is not None:
            if (
                validate_args is not False
                and not self.arg_constraints["probs"].check(self.probs).all()
            ):
                raise ValueError(f"The parameter {'probs'} has invalid values")
            self.probs = self._param = clamp_probs(self.probs)
        self._lims = lims
        super().__init__(shape, validate_args=validate_args)

    def _expand_parts(self, new: Any, batch_shape: Any) -> None:
        super()._expand_parts(new, batch_shape)
        new._lims = self._lims

    @lazy_property
    def probs(self) -> Any:
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _outside(self) -> Any:
        """Where the formulas are stable."""
        low, high = self._lims
        return torch.max(torch.le(self.probs, low), torch.gt(self.probs, high))

    def _cut_probs(self) -> Any:
        low = self._lims[0] * torch.ones_like(self.probs)
        return torch.where(self._outside(), self.probs, low)

    def _cont_bern_log_norm(self) -> Any:
        p = self._cut_probs()
        below = torch.where(torch.le(p, 0.5), p, torch.zeros_like(p))
        above = torch.where(torch.ge(p, 0.5), p, torch.ones_like(p))
        apart = torch.where(
            torch.le(p, 0.5), torch.log1p(-2.0 * below), torch.log(2.0 * above - 1.0)
        )
        norm = torch.log(torch.abs(torch.log1p(-p) - torch.log(p))) - apart
        x = torch.pow(self.probs - 0.5, 2)
        series = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        return torch.where(self._outside(), norm, series)

    @property
    def mean(self) -> Any:
        p = self._cut_probs()
        found = p / (2.0 * p - 1.0) + 1.0 / (torch.log1p(-p) - torch.log(p))
        x = self.probs - 0.5
        series = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * torch.pow(x, 2)) * x
        return torch.where(self._outside(), found, series)

    @property
    def stddev(self) -> Any:
        return torch.sqrt(self.variance)

    @property
    def variance(self) -> Any:
        p = self._cut_probs()
        found = p * (p - 1.0) / torch.pow(1.0 - 2.0 * p, 2)
        found = found + 1.0 / torch.pow(torch.log1p(-p) - torch.log(p), 2)
        x = torch.pow(self.probs - 0.5, 2)
        series = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x
        return torch.where(self._outside(), found, series)

    def rsample(self, sample_shape: Any = torch.Size()) -> Any:  # noqa: B008
        shape = self._extended_shape(sample_shape)
        return self.icdf(torch.rand(shape, dtype=self.probs.dtype))

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        return -cross_entropy(*broadcast_all(self.logits, value)) + self._cont_bern_log_norm()

    def cdf(self, value: Any) -> Any:
        self._validate_sample(value)
        p = self._cut_probs()
        powers = torch.pow(p, value) * torch.pow(1.0 - p, 1.0 - value)
        inside = torch.where(self._outside(), (powers + p - 1.0) / (2.0 * p - 1.0), value)
        above = torch.where(torch.ge(value, 1.0), torch.ones_like(value), inside)
        return torch.where(torch.le(value, 0.0), torch.zeros_like(value), above)

    def icdf(self, value: Any) -> Any:
        p = self._cut_probs()
        found = torch.log1p(-p + value * (2.0 * p - 1.0)) - torch.log1p(-p)
        found = found / (torch.log(p) - torch.log1p(-p))
        return torch.where(self._outside(), found, value)

    def entropy(self) -> Any:
        no, yes = torch.log1p(-self.probs), torch.log(self.probs)
        return self.mean * (no - yes) - self._cont_bern_log_norm() - no

    @property
    def _natural_params(self) -> Any:
        return (self.logits,)

    def _log_normalizer(self, x: Any) -> Any:
        low, high = (limit - 0.5 for limit in self._lims)
        outside = torch.max(torch.le(x, low), torch.gt(x, high))
        cut = torch.where(outside, x, low * torch.ones_like(x))
        norm = torch.log(torch.abs(torch.expm1(cut))) - torch.log(torch.abs(cut))
        series = 0.5 * x + torch.pow(x, 2) / 24.0 - torch.pow(x, 4) / 2880.0
        return torch.where(outside, norm, series)
