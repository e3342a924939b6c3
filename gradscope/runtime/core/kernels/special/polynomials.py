"""Orthogonal polynomials by their recurrences, with a degree for each element."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradscope.runtime.core.kernels.support import Array, quiet

Step = Callable[[Array, Array, Array, int], Array]


@quiet
def _by_recurrence(x: Array, n: Array, first: Array, step: Step) -> Array:
    """Return p_n(x), given p_1 and the step to p_(k+1) from p_k and p_(k-1); zero if n < 0."""
    degrees = np.nan_to_num(n).astype(np.int64)
    made = np.where(degrees < 0, 0.0, np.ones_like(x))
    made = np.where(degrees == 1, first, made)
    before, here = np.ones_like(x), first
    for k in range(1, int(degrees.max(initial=0))):
        before, here = here, step(x, here, before, k)
        made = np.where(degrees == k + 1, here, made)
    return np.asarray(made)


def _polynomial(
    first: Callable[[Array], Array], step: Step, *, shifted: bool = False
) -> Callable[[Array, Array], Array]:
    def kernel(x: Array, n: Array) -> Array:
        wide, degrees = np.broadcast_arrays(x.astype(np.float64), n.astype(np.float64))
        if shifted:
            wide = 2 * wide - 1
        return _by_recurrence(wide, degrees, first(wide), step).astype(x.dtype)

    return kernel


def _chebyshev(x: Array, here: Array, before: Array, _: int) -> Array:
    return 2 * x * here - before


POLYNOMIALS: dict[str, Callable[[Array, Array], Array]] = {
    "hermite_polynomial_h": _polynomial(
        lambda x: 2 * x, lambda x, p, before, k: 2 * x * p - 2 * k * before
    ),
    "hermite_polynomial_he": _polynomial(lambda x: x, lambda x, p, before, k: x * p - k * before),
    "laguerre_polynomial_l": _polynomial(
        lambda x: 1 - x, lambda x, p, before, k: ((2 * k + 1 - x) * p - k * before) / (k + 1)
    ),
    "legendre_polynomial_p": _polynomial(
        lambda x: x, lambda x, p, before, k: ((2 * k + 1) * x * p - k * before) / (k + 1)
    ),
}
for _letter, _first in (
    ("t", lambda x: x),
    ("u", lambda x: 2 * x),
    ("v", lambda x: 2 * x - 1),
    ("w", lambda x: 2 * x + 1),
):
    POLYNOMIALS[f"chebyshev_polynomial_{_letter}"] = _polynomial(_first, _chebyshev)
    POLYNOMIALS[f"shifted_chebyshev_polynomial_{_letter}"] = _polynomial(
        _first, _chebyshev, shifted=True
    )
"""By PyTorch's names."""
