"""The loops of samplers.py, compiled, for large arrays."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from gradscope.runtime.core.kernels.random import samplers
from gradscope.runtime.fast.compiling.compiled import compiled, inner

_SCOPE: dict[str, Any] = {**samplers.__dict__, "__name__": __name__}


def _taken(name: str, how: Callable[..., Any]) -> Any:
    """A function of samplers.py that calls compiled ones, compiled itself."""
    plain = getattr(samplers, name)
    made = FunctionType(plain.__code__, _SCOPE, name)
    made.__module__, made.__qualname__ = __name__, name
    _SCOPE[name] = how(made)
    return _SCOPE[name]


for _name in (
    "unit", "ran_out", "normal", "gamma_one", "poisson_one", "stirling_tail", "_binomial_few",
    "_binomial_many", "binomial_one",
):  # fmt: skip
    _taken(_name, inner)
fill_gamma, fill_poisson, fill_binomial = (
    _taken(name, compiled) for name in ("fill_gamma", "fill_poisson", "fill_binomial")
)


def warm() -> None:
    """Compile everything here."""
    units, state, one = np.full(64, 0.3), np.zeros(3), np.ones(1)
    fill_gamma(np.empty(1), one, one, units, state)
    fill_poisson(np.empty(1), one, units, state)
    fill_binomial(np.empty(1), one, one * 0.5, units, state)
