"""Options of variance and deviation, and the warning about too few values."""

from __future__ import annotations

from gradscope.runtime.core.state.warned import warn
from gradscope.runtime.core.tensors.tensor.tensor import Tensor


def _options(dim, unbiased, correction):
    """The three ways to call a variance, as (dim, correction)."""
    if dim is True or dim is False:  # var(False)
        dim, unbiased = None, dim
    if correction is None and unbiased is not None:
        correction = int(unbiased) if not unbiased or dim is not None else None
    elif correction is None and dim is not None:
        correction = 1
    return dim, correction


def _warn_of_few(name, input, made, correction):
    """Warn if results have no more values than the correction."""
    results = (made[0] if isinstance(made, tuple) else made).numel()
    if results and input.numel() // results > correction:
        return
    warn(
        f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the "
        "reduction factor (input numel divided by output numel)."
    )


def spread_measure(row, dims_of, name, doc):
    """The function or method of a row."""

    def measure(
        input, dim=None, unbiased=None, keepdim=False, *, correction=None, axis=None, keepdims=False
    ):
        dim, correction = _options(dim if axis is None else axis, unbiased, correction)
        dims = None if dim is None else dims_of(dim)
        made = row(input, dims, correction=correction, keepdim=keepdim or keepdims)
        if isinstance(input, Tensor):
            _warn_of_few(name, input, made, 1 if correction is None else correction)
        return made

    measure.__name__ = measure.__qualname__ = name
    measure.__doc__ = doc
    return measure
