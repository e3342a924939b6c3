"""`torch._VF`: functions of the top module, as modules call them."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.errors import missing
from gradscope.runtime.core.ops.reduce import distinct
from gradscope.runtime.core.rows.offered import FUNCTIONS


def unique_dim(
    input: Any,
    dim: int,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> Any:
    """The distinct slices, the slice of each given one, and how often each is there."""
    return distinct.unique_dim(input, dim, return_inverse, return_counts)


def __getattr__(name: str) -> Any:
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    raise missing.no_module_attribute("torch._VF", name, list(FUNCTIONS))
