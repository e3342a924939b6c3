"""Max and average pooling over the last one to three dims, and their gradients.

Positions of maxima are flat indices in their plane: all pooled dims. Halves are computed in float32
and rounded once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, Final

import numpy as np

from gradscope.runtime.core.kernels.arrays.scatter import put_add
from gradscope.runtime.core.kernels.support import HALVES, Array, Family
from gradscope.runtime.core.kernels.windows.spans import WHOLE, PoolSpan

Spans = Sequence[PoolSpan]


COMPILED: Final = 1 << 6
"""Size from which a kernel that is already compiled is faster, despite the cost of its call."""
FAST: Final = Family("windows.fast_pool", few=COMPILED)


def pays(x: Array) -> bool:
    """Whether an array is large enough for the compiled kernels."""
    return x.dtype.kind == "f" and FAST.wins(x.size)


def max_pool(x: Array, spans: Spans) -> tuple[Array, Array]:
    """The maximum of every window, or a NaN in it, and its position."""
    if x.dtype in HALVES:
        values, where = max_pool(x.astype(np.float32), spans)
        return values.astype(x.dtype), where
    if not pays(x):
        return max_pool_plain(x, spans)
    values = np.empty(_pooled_shape(x, spans), x.dtype)
    where = np.empty(values.shape, np.int64)
    FAST.kernels.max_pool(_planes(x, spans), values, where, _three(spans))
    return values, where


def max_pool_backward(grad: Array, where: Array, shape: tuple[int, ...], dims: int) -> Array:
    """The gradient of the input. The maximum of several windows gets the sum."""
    if grad.dtype in HALVES:
        return max_pool_backward(grad.astype(np.float32), where, shape, dims).astype(grad.dtype)
    made = np.zeros(shape, grad.dtype)
    planes = int(np.prod(shape[:-dims], dtype=int))
    if not made.size or not grad.size:
        return made
    if pays(made):
        FAST.kernels.add_in_planes(
            made.reshape(planes, -1),
            np.ascontiguousarray(where).reshape(planes, -1),
            np.ascontiguousarray(grad).reshape(planes, -1),
        )
        return made
    begins = np.arange(planes).reshape(-1, 1) * (made.size // planes)
    put_add(made, where.reshape(planes, -1) + begins, np.ascontiguousarray(grad))
    return made


def avg_pool(x: Array, spans: Spans, divisor: int | None = None) -> Array:
    """The mean of every window, or its sum divided by `divisor`."""
    if x.dtype in HALVES:
        return avg_pool(x.astype(np.float32), spans, divisor).astype(x.dtype)
    if not pays(x):
        return avg_pool_plain(x, spans, divisor)
    made = np.empty(_pooled_shape(x, spans), x.dtype)
    FAST.kernels.avg_pool(_planes(x, spans), made, _three(spans), divisor or 0)
    return made


def avg_pool_backward(
    grad: Array, shape: tuple[int, ...], spans: Spans, divisor: int | None = None
) -> Array:
    """The gradient of the input: each window's over its divisor, summed where windows overlap."""
    if grad.dtype in HALVES:
        wide = avg_pool_backward(grad.astype(np.float32), shape, spans, divisor)
        return wide.astype(grad.dtype)
    made = np.zeros(shape, grad.dtype)
    if not pays(made):
        return avg_pool_backward_plain(grad, shape, spans, divisor)
    FAST.kernels.avg_pool_backward(np.ascontiguousarray(grad), made, _three(spans), divisor or 0)
    return made


def _pooled_shape(x: Array, spans: Spans) -> tuple[int, ...]:
    return (*x.shape[: -len(spans)], *(span.out for span in spans))


def _planes(x: Array, spans: Spans) -> Array:
    sizes = [span.size for span in _three(spans)]
    return np.ascontiguousarray(x).reshape(-1, *sizes)


def _three(spans: Spans) -> tuple[PoolSpan, ...]:
    """The windows along three dims, the first of which may be missing."""
    return (*[WHOLE] * (3 - len(spans)), *spans)


# -- the same in plain NumPy ---------------------------------------------------------------------


FEW: Final = 1 << 13
"""Largest number of elements in all windows that are laid side by side."""


def max_pool_plain(x: Array, spans: Spans) -> tuple[Array, Array]:
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    shape = _pooled_shape(x, spans)
    if int(np.prod(shape)) * int(np.prod([span.taps for span in spans])) <= FEW:
        made = _max_of_few(x, spans, shape, lowest)
        if made is not None:
            return made
    values = np.full(shape, lowest, x.dtype)
    where = np.empty(shape, np.int64)
    where[...] = _positions(spans, [span.starts for span in spans], shape)
    for places, seen in _seen(x, spans, lowest):
        better = seen > values
        if x.dtype.kind == "f":
            better |= np.isnan(seen)
        np.copyto(values, seen, where=better)
        np.copyto(where, _positions(spans, places, shape), where=better)
    return values, where


def _max_of_few(
    x: Array, spans: Spans, shape: tuple[int, ...], lowest: Any
) -> tuple[Array, Array] | None:
    """All windows side by side, which takes few calls; None if the maximum is ambiguous.

    That is: several NaN, of which PyTorch takes the last, or values equal to the padding.
    """
    if any(span.regular is None for span in spans) or 0 in shape:
        return None
    padded = np.ascontiguousarray(_padded(x, spans, lowest))
    count = len(spans)
    steps = padded.strides[-count:]
    apart = (s.regular.stride * step for s, step in zip(spans, steps, strict=True) if s.regular)
    inside = (s.step * step for s, step in zip(spans, steps, strict=True))
    taps = [span.taps for span in spans]
    windows = np.ndarray(
        (*shape, *taps), x.dtype, padded, 0, (*padded.strides[:-count], *apart, *inside)
    ).reshape(*shape, -1)
    at = windows.argmax(-1)
    values = np.take_along_axis(windows, at[..., None], -1)[..., 0]
    if x.dtype.kind == "f" and not (values > lowest).all():
        return None
    if padded is not x and x.dtype.kind != "f" and (values == lowest).any():
        return None
    first = _positions(spans, [_unclipped(span, 0) for span in spans], shape)
    return values, first + _offsets(spans)[at]


def _offsets(spans: Spans) -> Array:
    """Offsets of a window's elements from its first one, in the plane."""
    made: Any = np.zeros(1, np.int64)
    for span in spans:
        made = (made * span.size)[:, None] + np.arange(span.taps) * span.step
        made = made.reshape(-1)
    return np.asarray(made)


def _unclipped(span: PoolSpan, tap: int) -> Array:
    """The position of element `tap` of each window, even if it is outside."""
    kind = span.regular
    assert kind is not None
    return np.arange(span.out)[None] * kind.stride - kind.padding + tap * span.step


def _positions(spans: Spans, places: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """Positions along each dim as flat positions in the plane, broadcast over planes."""
    made: Any = 0
    for i, (span, place) in enumerate(zip(spans, places, strict=True)):
        following = (1,) * (len(spans) - 1 - i)
        made = made * span.size + place.reshape(len(place), *(1,) * i, span.out, *following)
    if len(made) == 1:
        return np.asarray(made[0])
    return np.asarray(made.reshape(shape))


def _seen(x: Array, spans: Spans, outside: Any) -> Iterator[tuple[list[Array], Array]]:
    """For every element of a window, its position along each dim, and its value."""
    taps = product(*(range(span.taps) for span in spans))
    if all(span.regular is not None for span in spans):
        padded = _padded(x, spans, outside)
        for tap in taps:
            places = [_unclipped(span, t) for span, t in zip(spans, tap, strict=True)]
            yield places, padded[_at(spans, tap)]
        return
    shape = _pooled_shape(x, spans)
    planes = x.reshape(-1, int(np.prod([span.size for span in spans], dtype=int)))
    for tap in taps:
        places = [span.places(t) for span, t in zip(spans, tap, strict=True)]
        where = _positions(spans, places, shape)
        if where.shape == shape:
            flat = where.reshape(len(planes), -1)
            yield places, np.take_along_axis(planes, flat, 1).reshape(shape)
        else:
            yield places, planes[:, where].reshape(shape)


def _at(spans: Spans, tap: tuple[int, ...]) -> tuple[Any, ...]:
    """The index, in the padded input, of this element in all windows."""
    return (..., *(_slice(span, t) for span, t in zip(spans, tap, strict=True)))


def _slice(span: PoolSpan, tap: int) -> slice:
    assert span.regular is not None
    begin, stride = tap * span.step, span.regular.stride
    return slice(begin, begin + (span.out - 1) * stride + 1, stride)


def _edges(span: PoolSpan) -> tuple[int, int]:
    """The padding needed at both ends so that all windows are inside."""
    assert span.regular is not None
    before = span.regular.padding
    return before, max(span.regular.reach(span.out, span.step) - before - span.size, 0)


def _padded(x: Array, spans: Spans, outside: Any) -> Array:
    edges = [_edges(span) for span in spans]
    if not any(map(any, edges)):
        return x
    return np.pad(x, [(0, 0)] * (x.ndim - len(spans)) + edges, constant_values=outside)


def avg_pool_plain(x: Array, spans: Spans, divisor: int | None = None) -> Array:
    if all(span.regular is not None for span in spans):
        made = np.zeros(_pooled_shape(x, spans), x.dtype)
        for _, seen in _seen(x, spans, 0):
            made += seen
    else:
        made = x
        for dim, span in zip(range(-len(spans), 0), spans, strict=True):
            made = _window_sums(made, dim, span)
    if x.dtype.kind in "iu":
        return _toward_zero(made, _divisors(spans, divisor, np.dtype(np.int64)))
    return made / _divisors(spans, divisor, x.dtype)


def _toward_zero(sums: Array, divisors: Array) -> Array:
    return np.asarray(np.abs(sums) // np.abs(divisors) * np.sign(sums) * np.sign(divisors))


def _window_sums(x: Array, dim: int, span: PoolSpan) -> Array:
    """The sums of windows that may overlap and differ in length."""
    if not span.out:
        return np.zeros((*x.shape[:dim], 0, *x.shape[dim:][1:]), x.dtype)
    limits = np.stack([span.starts[0], span.ends[0]], 1).reshape(-1)
    last = [(0, 0)] * x.ndim
    last[dim] = (0, 1)  # ends of windows
    sums = np.add.reduceat(np.pad(x, last), limits, axis=dim)
    return np.asarray(np.moveaxis(np.moveaxis(sums, dim, 0)[::2], 0, dim))


def _divisors(spans: Spans, divisor: int | None, kind: np.dtype[Any]) -> Array:
    if divisor is not None:
        return np.array(divisor, kind)
    counts = [span.counts for span in spans]
    made: Any = 1
    for i, count in enumerate(counts):
        made = made * count[0].reshape(-1, *(1,) * (len(spans) - 1 - i))
    return np.asarray(made, kind)


def avg_pool_backward_plain(
    grad: Array, shape: tuple[int, ...], spans: Spans, divisor: int | None = None
) -> Array:
    if grad.dtype.kind in "iu":
        share = _toward_zero(grad, _divisors(spans, divisor, np.dtype(np.int64)))
    else:
        share = grad / _divisors(spans, divisor, grad.dtype)
    if all(span.regular is not None for span in spans):
        edges = [_edges(span) for span in spans]
        sizes = [span.size + a + b for span, (a, b) in zip(spans, edges, strict=True)]
        made = np.zeros((*shape[: -len(spans)], *sizes), grad.dtype)
        for tap in product(*(range(span.taps) for span in spans)):
            made[_at(spans, tap)] += share
        inner = (slice(a, a + span.size) for span, (a, _) in zip(spans, edges, strict=True))
        index: tuple[Any, ...] = (..., *inner)
        return np.ascontiguousarray(made[index])
    for dim, span in zip(range(-len(spans), 0), spans, strict=True):
        share = _spread(share, dim, span)
    return share


def _spread(grad: Array, dim: int, span: PoolSpan) -> Array:
    """The sum for every position of the windows it is in, along one dim."""
    grads = np.moveaxis(grad, dim, 0)
    made = np.zeros((span.size, *grads.shape[1:]), grad.dtype)
    for one, start, end in zip(grads, span.starts[0], span.ends[0], strict=True):
        made[start:end] += one
    return np.ascontiguousarray(np.moveaxis(made, 0, dim))
