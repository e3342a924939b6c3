"""One-hot vectors of a categorical distribution."""

from __future__ import annotations

from typing import Any

import gradscope.runtime as torch
from gradscope.runtime.distributions import constraints
from gradscope.runtime.distributions.categorical import ByCategorical, Categorical


class OneHotCategorical(ByCategorical):
    """Vectors with a one at the drawn class."""

    support = constraints.one_hot
    has_enumerate_support = True
    batched = ()

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits)
        super().__init__(validate_args)

    @property
    def _param(self) -> Any:
        return self._categorical._param

    @property
    def mean(self) -> Any:
        return self.probs

    def _vectors(self, classes: Any) -> Any:
        count = self._categorical._num_events
        return torch.nn.functional.one_hot(classes, count).to(self.probs)

    @property
    def mode(self) -> Any:
        return self._vectors(self.probs.argmax(dim=-1))

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = torch.Size()) -> Any:  # noqa: B008
        return self._vectors(self._categorical.sample(torch.Size(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        self._validate_sample(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self) -> Any:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Any:
        count = self.event_shape[0]
        values = torch.eye(count, dtype=self._param.dtype)
        values = values.view((count, *(1 for _ in self.batch_shape), count))
        return values.expand((count, *self.batch_shape, count)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """The same with gradients by the probabilities (straight-through)."""

    has_rsample = True

    def rsample(self, sample_shape: Any = torch.Size()) -> Any:  # noqa: B008
        return self.sample(sample_shape) + (self.probs - self.probs.detach())
