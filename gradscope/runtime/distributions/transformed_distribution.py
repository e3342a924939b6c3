"""Distributions of transformed values."""

from __future__ import annotations

from typing import Any

import gradscope.runtime as torch
from gradscope.runtime.distributions import constraints
from gradscope.runtime.distributions.distribution import Distribution
from gradscope.runtime.distributions.independent import Independent
from gradscope.runtime.distributions.transforms import ComposeTransform, Transform
from gradscope.runtime.distributions.utils import sum_rightmost


class TransformedDistribution(Distribution):
    """The distribution of a base distribution's samples after transforms."""

    arg_constraints: Any = {}  # noqa: RUF012
    batched: tuple[str, ...] = ()

    def __init__(
        self, base_distribution: Any, transforms: Any, validate_args: bool | None = None
    ) -> None:
        if isinstance(transforms, Transform):
            transforms = [transforms]
        elif not isinstance(transforms, list):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        elif not all(isinstance(t, Transform) for t in transforms):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        self.transforms = transforms
        shape = base_distribution.batch_shape + base_distribution.event_shape
        base_dim = len(base_distribution.event_shape)
        whole = ComposeTransform(transforms)
        if len(shape) < whole.domain.event_dim:
            raise ValueError(
                "base_distribution needs to have shape with size at least "
                f"{whole.domain.event_dim}, but got {shape}."
            )
        forward = whole.forward_shape(shape)
        back = whole.inverse_shape(forward)
        if shape != back:
            base_distribution = base_distribution.expand(back[: len(back) - base_dim])
        together = whole.domain.event_dim - base_dim
        if together > 0:
            base_distribution = Independent(base_distribution, together)
        self.base_dist = base_distribution
        grown = whole.codomain.event_dim - whole.domain.event_dim
        cut = len(forward) - max(whole.codomain.event_dim, base_dim + grown)
        super().__init__(
            torch.Size(forward[:cut]), torch.Size(forward[cut:]), validate_args=validate_args
        )

    def _expand_parts(self, new: Any, batch_shape: Any) -> None:
        shape = batch_shape + self.event_shape
        for t in reversed(self.transforms):
            shape = t.inverse_shape(shape)
        cut = len(shape) - len(self.base_dist.event_shape)
        new.base_dist = self.base_dist.expand(shape[:cut])
        new.transforms = self.transforms

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        own = self.transforms[-1].codomain
        more = len(self.event_shape) - own.event_dim
        return constraints.independent(own, more) if more > 0 else own

    @property
    def has_rsample(self) -> Any:
        return self.base_dist.has_rsample

    def _through(self, x: Any) -> Any:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Any = torch.Size()) -> Any:  # noqa: B008
        with torch.no_grad():
            return self._through(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = torch.Size()) -> Any:  # noqa: B008
        return self._through(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        """The base's log probability minus the log determinants of the transforms."""
        self._validate_sample(value)
        event_dim = len(self.event_shape)
        stretched: Any = 0.0
        y = value
        for t in reversed(self.transforms):
            x = t.inv(y)
            event_dim += t.domain.event_dim - t.codomain.event_dim
            term = t.log_abs_det_jacobian(x, y)
            stretched = stretched - sum_rightmost(term, event_dim - t.domain.event_dim)
            y = x
        more = event_dim - len(self.base_dist.event_shape)
        return stretched + sum_rightmost(self.base_dist.log_prob(y), more)

    def _monotonize_cdf(self, value: Any) -> Any:
        """Flip the probability if the transforms decrease."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value: Any) -> Any:
        for transform in self.transforms[::-1]:
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Any) -> Any:
        return self._through(self.base_dist.icdf(self._monotonize_cdf(value)))
