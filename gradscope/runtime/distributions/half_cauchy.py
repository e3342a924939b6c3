"""The half-Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

from gradscope.runtime.distributions.cauchy import Cauchy
from gradscope.runtime.distributions.half_normal import Half
from gradscope.runtime.distributions.transforms import AbsTransform


class HalfCauchy(Half):
    """Absolute values of Cauchy numbers."""

    batched = ()

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = Cauchy(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self._constant(math.inf, self.scale)

    @property
    def variance(self) -> Any:
        return self.base_dist.variance
