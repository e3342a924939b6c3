"""The steps of LSTMs by tiles, in several threads. The plain twins are in core/kernels."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from gradscope.runtime.core.kernels.layers.lstm import FEWEST
from gradscope.runtime.core.kernels.linalg.products import COST
from gradscope.runtime.core.kernels.support import Array
from gradscope.runtime.fast.layers import fast_lstm
from gradscope.runtime.fast.threads.spread import kernel_threads, spread
from gradscope.runtime.fast.tiles.tile import ROWS

TOGETHER: Final = 1 << 24
"""Number of products from which a step may be faster by BLAS with many threads."""


def step(name: str) -> Any:
    """The compiled function of one step."""
    return getattr(fast_lstm, name)


def ran(name: str, gates: Array, *others: Array) -> bool:
    """Run all steps, unless BLAS is faster. Returns whether it ran.

    Rows of a batch are independent, so threads divide them once for all steps.
    """
    steps, batch, wide = gates.shape
    if _is_for_many(batch, wide):
        return False
    some = partial(getattr(fast_lstm, name), gates, *others)
    spread(some, batch, steps * wide * wide / 4 * COST, ROWS)
    return True


def _is_for_many(batch: int, wide: int) -> bool:
    """Whether BLAS with its threads is faster for a step than tiles.

    The number of threads is limited by the tiles' rows; one thread does the work of two of BLAS.
    """
    most = min(kernel_threads(), -(-batch // FEWEST))
    return batch * wide * wide >= 4 * TOGETHER and kernel_threads() > 2 * most
