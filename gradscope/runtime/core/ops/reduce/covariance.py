"""Covariances: cov, corrcoef."""

from __future__ import annotations

from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.ops.in_formulas import Scalar, is_complex
from gradscope.runtime.core.ops.products.linalg import mm
from gradscope.runtime.core.rows.offered import FUNCTIONS, both
from gradscope.runtime.core.state.warned import warn
from gradscope.runtime.core.tensors.making import factories


def _checked_weights(name, weights, count, *, whole):
    if weights.dim() > 1:
        raise RuntimeError(
            f"cov(): expected {name} to have one or fewer dimensions but got {name} with "
            f"{weights.dim()} dimensions"
        )
    kind = weights.dtype
    if (kind.is_floating_point or kind.is_complex) == whole:
        wanted = "integral" if whole else "floating point"
        raise RuntimeError(
            f"cov(): expected {name} to have {wanted} dtype but got {name} with "
            f"{kind.scalar_name} dtype"
        )
    if weights.numel() != count:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the input "
            f"but got {weights.numel()} != {count}"
        )
    if count and weights.min().item() < 0:
        raise RuntimeError(f"cov(): {name} cannot be negative")


def _weights(fweights, aweights, count):
    if fweights is not None:
        _checked_weights("fweights", fweights, count, whole=True)
    if aweights is not None:
        _checked_weights("aweights", aweights, count, whole=False)
    if fweights is None or aweights is None:
        return fweights if aweights is None else aweights
    return fweights * aweights


@both
def cov(input, *, correction=1, fweights=None, aweights=None):
    """The covariances of variables (rows) over observations (columns)."""
    if input.dim() > 2:
        raise RuntimeError(
            "cov(): expected input to have two or fewer dimensions but got an input with "
            f"{input.dim()} dimensions"
        )
    if input.dtype is dtypes.bool_:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    given = input.view(1, -1) if input.dim() < 2 else input
    count = given.shape[1]
    weight = _weights(fweights, aweights, count)
    if weight is None:
        whole = factories.tensor(count, dtype=dtypes.int64)
        mean = given.sum((1,)) / whole
    else:
        whole = weight.sum()
        if count and whole.item() == 0:
            raise ZeroDivisionError("cov(): weights sum to zero, can't be normalized")
        mean = (given * weight).sum((1,)) / whole
    if correction == 0:
        factor = whole
    elif aweights is not None:
        factor = whole - (weight * aweights).sum() * Scalar(correction) / whole
    else:
        factor = whole - correction
    if factor.item() <= 0:
        warn(
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number "
            "of observations."
        )
        factor = factories.zeros_like(factor)
    far = given - mean.unsqueeze(1)
    other = (far if weight is None else far * weight).t()
    made = mm(far, other.conj() if is_complex(other) else other)
    if is_complex(made) and made.shape[0] == 1:
        made = FUNCTIONS["complex"](made.real, factories.zeros_like(made.real))
    return (made / factor).squeeze()


@both
def corrcoef(input):
    """The correlation coefficients."""
    if input.dim() > 2:
        raise RuntimeError(
            "corrcoef(): expected input to have two or fewer dimensions but got an input with "
            f"{input.dim()} dimensions"
        )
    made = cov(input)
    if not made.dim():
        return made / made
    line = made.diagonal()
    spread = (line.real if is_complex(line) else line).sqrt()
    made = made / spread.view(-1, 1)
    made = made / spread.view(1, -1)
    if is_complex(made):
        return FUNCTIONS["complex"](made.real.clip(-1, 1), made.imag.clip(-1, 1))
    return made.clip(-1, 1)
