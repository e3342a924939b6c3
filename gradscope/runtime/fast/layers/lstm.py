"""The steps of LSTMs by tiles, in several threads; NumPy's are in core/kernels."""

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
"""A step of more products may be made by many threads together, as BLAS does."""


def step(name: str) -> Any:
    """The compiled function of one step."""
    return getattr(fast_lstm, name)


def ran(name: str, gates: Array, *others: Array) -> bool:
    """Make all steps, unless BLAS makes them sooner.

    Rows of a batch have nothing to do with each other, so threads part them once for all steps.
    """
    steps, batch, wide = gates.shape
    if _is_for_many(batch, wide):
        return False
    some = partial(getattr(fast_lstm, name), gates, *others)
    spread(some, batch, steps * wide * wide / 4 * COST, ROWS)
    return True


def _is_for_many(batch: int, wide: int) -> bool:
    """Whether BLAS parts a step among so many threads that it is done before tiles are.

    There are no more threads than tiles have rows to part; one does what two of BLAS do.
    """
    most = min(kernel_threads(), -(-batch // FEWEST))
    return batch * wide * wide >= 4 * TOGETHER and kernel_threads() > 2 * most
