"""The chi-squared distribution."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.distributions import constraints
from gradscope.runtime.distributions.gamma import Gamma


class Chi2(Gamma):
    """Sums of squares of `df` normal numbers."""

    arg_constraints = {"df": constraints.positive}  # noqa: RUF012
    batched = ("concentration", "rate")

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Any:
        return self.concentration * 2
