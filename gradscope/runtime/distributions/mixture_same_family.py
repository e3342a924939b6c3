"""Mixtures of distributions of one kind."""

from __future__ import annotations

from typing import Any

import gradscope.runtime as torch
from gradscope.runtime.distributions import constraints
from gradscope.runtime.distributions.categorical import Categorical
from gradscope.runtime.distributions.distribution import Distribution


class MixtureSameFamily(Distribution):
    """Values of a randomly chosen component; the components are along the last batch dim."""

    arg_constraints = {}  # noqa: RUF012
    has_rsample = False
    batched = ()

    def __init__(
        self,
        mixture_distribution: Any,
        component_distribution: Any,
        validate_args: bool | None = None,
    ) -> None:
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        _check(mixture_distribution, component_distribution)
        self._num_component = mixture_distribution.logits.shape[-1]
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(
            component_distribution.batch_shape[:-1], event_shape, validate_args=validate_args
        )

    def _expand_parts(self, new: Any, batch_shape: Any) -> None:
        count = self._num_component
        shape = torch.Size((*batch_shape, count))
        new._component_distribution = self._component_distribution.expand(shape)
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component, new._event_ndims = count, self._event_ndims

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Any:
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        return self._component_distribution

    @property
    def mean(self) -> Any:
        return self._weighted(self.component_distribution.mean)

    @property
    def variance(self) -> Any:
        """The mean variance of the components plus the variance of their means."""
        component = self.component_distribution
        apart = component.mean - self._pad(self.mean)
        return self._weighted(component.variance) + self._weighted(apart.pow(2.0))

    def _weighted(self, values: Any) -> Any:
        probs = self._pad_mixture_dimensions(self.mixture_distribution.probs)
        return torch.sum(probs * values, dim=-1 - self._event_ndims)

    def cdf(self, x: Any) -> Any:
        each = self.component_distribution.cdf(self._pad(x))
        return torch.sum(each * self.mixture_distribution.probs, dim=-1)

    def log_prob(self, x: Any) -> Any:
        self._validate_sample(x)
        each = self.component_distribution.log_prob(self._pad(x))
        weights = torch.log_softmax(self.mixture_distribution.logits, dim=-1)
        return torch.logsumexp(each + weights, dim=-1)

    def sample(self, sample_shape: Any = torch.Size()) -> Any:  # noqa: B008
        with torch.no_grad():
            dim = len(sample_shape) + len(self.batch_shape)
            chosen = self.mixture_distribution.sample(sample_shape)
            shape, event = chosen.shape, self.event_shape
            values = self.component_distribution.sample(sample_shape)
            chosen = chosen.reshape((*shape, 1, *(1 for _ in event)))
            chosen = chosen.repeat((*(1 for _ in shape), 1, *event))
            return torch.gather(values, dim, chosen).squeeze(dim)

    def _pad(self, x: Any) -> Any:
        return x.unsqueeze(-1 - self._event_ndims)

    def _pad_mixture_dimensions(self, x: Any) -> Any:
        own, mixed = len(self.batch_shape), len(self.mixture_distribution.batch_shape)
        ones = (1,) * (0 if mixed == 1 else own - mixed)
        shape = x.shape
        return x.reshape((*shape[:-1], *ones, *shape[-1:], *(1 for _ in range(self._event_ndims))))

    def __repr__(self) -> str:
        parts = f"\n  {self.mixture_distribution},\n  {self.component_distribution}"
        return f"MixtureSameFamily({parts})"


def _check(mixture: Any, component: Any) -> None:
    if not isinstance(mixture, Categorical):
        raise ValueError(
            " The Mixture distribution needs to be an  instance of torch.distributions.Categorical"
        )
    if not isinstance(component, Distribution):
        raise ValueError(
            "The Component distribution needs to be an instance of torch.distributions.Distribution"
        )
    mixed, own = mixture.batch_shape, component.batch_shape[:-1]
    for one, other in zip(reversed(mixed), reversed(own), strict=False):
        if one not in (1, other) and other != 1:
            raise ValueError(
                f"`mixture_distribution.batch_shape` ({mixed}) is not compatible with "
                f"`component_distribution.batch_shape`({own})"
            )
    weights, parts = mixture.logits.shape[-1], component.batch_shape[-1]
    if weights != parts:
        raise ValueError(
            f"`mixture_distribution component` ({weights}) does not equal "
            f"`component_distribution.batch_shape[-1]` ({parts})"
        )
