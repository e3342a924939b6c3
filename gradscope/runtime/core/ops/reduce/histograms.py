"""Binary search and histograms: searchsorted, bucketize, histogram."""

from __future__ import annotations

import math

import numpy as np

from gradscope.runtime.core.calls import return_types
from gradscope.runtime.core.calls.declare import INTERNAL, UNKNOWN, family, op, outputs, tensors
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.errors.dtypes import unknown_dtype
from gradscope.runtime.core.ops.in_formulas import is_number, no_derivative, sortable
from gradscope.runtime.core.rows.offered import both, function
from gradscope.runtime.core.tensors.dims import text
from gradscope.runtime.core.tensors.placement import wrapped_on
from gradscope.runtime.core.tensors.wrapping import wrapped_number


def _searched(self, sorted_sequence, sorter=None, out_int32=False, right=False, side=None):
    side = side or ("right" if right else "left")
    boundaries, values = sortable(sorted_sequence), sortable(self)
    if sorter is not None:
        boundaries = np.take_along_axis(boundaries, sorter, -1)
    if boundaries.ndim == 1:
        made = np.searchsorted(boundaries, values, side)
    else:
        rows = boundaries.reshape(math.prod(boundaries.shape[:-1]), boundaries.shape[-1])
        wanted = values.reshape(len(rows), values.shape[-1])
        made = np.zeros(wanted.shape, np.int64)
        for into, row, want in zip(made, rows, wanted, strict=True):
            into[:] = np.searchsorted(row, want, side)
        made = made.reshape(values.shape)
    return np.asarray(made).astype(np.int32 if out_int32 else np.int64)


_searchsorted = op(None, _searched, INTERNAL, tensors("sorted_sequence", "sorter"))


def _histc(self, bins=100, min=0, max=0):
    if self.dtype.kind not in "fV":
        automatic = min == max and self.dtype.kind == "c"
        name = "aminmax_cpu" if automatic else "histogram_cpu"
        raise unknown_dtype(name, self)
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    low, high = _range(self, min, max, "torch.histc")
    values, kind = self.reshape(-1), self.dtype.type
    values = values[(values >= kind(low)) & (values <= kind(high))]
    places = ((values - kind(low)) * kind(bins) / kind(high - low)).astype(np.int64)
    made = np.bincount(np.minimum(places, bins - 1), minlength=bins)
    return made.astype(self.dtype)


def _range(self, low, high, name, margin=1.0):
    """The outer edges: the given ones, or the minimum and maximum."""
    if low == high and self.size:
        low, high = float(self.min()), float(self.max())
        if np.isnan(self.astype(np.float64)).any():
            low = high = float("nan")
    if not (np.isfinite(low) and np.isfinite(high)):
        raise RuntimeError(f"{name}: range of [{low:g}, {high:g}] is not finite")
    if low > high:
        raise RuntimeError(f"{name}: max must be larger than min")
    return (low - margin, high + margin) if low == high else (low, high)


histc = op(None, _histc)


def _histogram(self, edges, weight=None, density=False):
    """The weight in each bin. The last bin includes its upper edge."""
    points = self.reshape(-1, len(edges))
    shape = tuple(len(e) - 1 for e in edges)
    inside = np.ones(len(points), np.bool_)
    places = np.zeros(len(points), np.int64)
    for values, marks, size in zip(points.T, edges, shape, strict=True):
        inside &= (values >= marks[0]) & (values <= marks[-1])
        found = np.searchsorted(marks, values, "right") - 1
        places = places * size + np.clip(
            np.where(values == marks[-1], size - 1, found), 0, size - 1
        )
    weights = None if weight is None else weight.reshape(-1).astype(np.float64)[inside]
    counts = np.bincount(places[inside], weights, math.prod(shape)).reshape(shape)
    if density:
        counts = counts / counts.sum()
        for d, marks in enumerate(edges):
            widths = np.diff(marks.astype(np.float64))
            counts = counts / widths.reshape([-1 if d == e else 1 for e in range(len(edges))])
    return counts.astype(self.dtype)


histogram__bins = op(
    "NotImplemented",
    lambda self, weight=None, bins=1, range=None, density=False: _histogrammed(
        self, bins, range, weight, density
    ),
    UNKNOWN,
    INTERNAL,
    outputs("hist", "bin_edges"),
    self=no_derivative("histogram"),
    weight=no_derivative("histogram"),
)


def _histogrammed(self, bins, range, weight, density):
    if self.dtype.char not in "fd":
        raise unknown_dtype("histogramdd", self)
    edges = bins if isinstance(bins, np.ndarray) else _edges(self.reshape(-1), bins, range)
    return _histogram(self.reshape(-1, 1), [edges], weight, density), edges.astype(self.dtype)


def _edges(values, bins, range):
    low, high = (0, 0) if range is None else range
    if range is None and not values.size:
        low, high = 0.0, 1.0
    if range is None or low == high:
        low, high = _range(values, low, high, "torch.histogram()", 0.5)
    elif low > high:
        raise RuntimeError(
            f"torch.histogram(): min should not exceed max, but got min {low:g} max {high:g} for "
            "dimension 0"
        )
    return np.linspace(low, high, bins + 1, dtype=values.dtype)


family(globals())


@both
def histogram(input, bins, *, range=None, weight=None, density=False):
    """The number of elements in each bin, and the edges."""
    if hasattr(bins, "_array"):
        bins = bins._array
    elif bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    return return_types.histogram(*histogram__bins(input, weight, bins, range, density))


@function
def histogramdd(input, bins, range=None, weight=None, density=False):
    """The same in several dims: the last dim of `input` has the coordinates of a point."""
    count = input.shape[-1]
    points = input._array.reshape(-1, count)
    if isinstance(bins, int):
        bins = [bins] * count
    if len(bins) != count:
        raise RuntimeError(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input."
        )
    edges = [
        b._array
        if hasattr(b, "_array")
        else _edges(points[:, i], b, None if range is None else range[2 * i : 2 * i + 2])
        for i, b in enumerate(bins)
    ]
    made = _histogram(points, edges, None if weight is None else weight._array, density)
    return return_types.histogramdd(
        wrapped_on(made, input.device),
        tuple(wrapped_on(e.astype(made.dtype), input.device) for e in edges),
    )


# -- searching ------------------------------------------------------------------------------------


@function
def searchsorted(
    sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None, out=None
):
    """The index at which each number can be inserted to keep the sequence sorted."""
    values = _like(input, sorted_sequence) if is_number(input) else input
    _check_search(sorted_sequence, values, out_int32, right, side, sorter, out, input)
    made = _searchsorted(values, sorted_sequence, sorter, out_int32, right, side)
    return made if out is None else _placed(made, out)


def _placed(made, out):
    from gradscope.runtime.core.calls.extra_arguments.out import written

    return written("searchsorted", made, out)


def _like(number, tensor):
    """A number as a tensor of the same dtype, if its kind fits."""
    if tensor._array.dtype.kind in "iub" and isinstance(number, float):
        return wrapped_number(number)
    return wrapped_on(np.asarray(number).astype(tensor._array.dtype), tensor.device)


@function
def bucketize(input, boundaries, *, out_int32=False, right=False, out=None):
    """The index of the bucket of each number."""
    if boundaries.dim() != 1:
        raise RuntimeError(
            f"boundaries tensor must be 1 dimension, but got dim({boundaries.dim()})"
        )
    return searchsorted(boundaries, input, out_int32=out_int32, right=right, out=out)


def _check_search(boundaries, values, out_int32, right, side, sorter, out, given):
    name = "torch.searchsorted(): "
    if side is not None and side not in ("left", "right"):
        raise RuntimeError(f"{name}side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(
            f"{name}side and right can't be set to opposites, got side of left while right was True"
        )
    if not boundaries.dim():
        raise RuntimeError(
            f"{name}input value can be a scalar only when boundaries tensor dimension is 1, but we "
            f"got boundaries tensor dim({boundaries.dim()}) and input value's dim({values.dim()}) "
            f"numel({values.numel()})"
        )
    _check_search_shapes(name, boundaries, values, sorter)
    if boundaries.dtype is not values.dtype and not is_number(given):
        raise RuntimeError(
            f"{name}boundary tensor and input value tensor should have same dtype, but got "
            f"boundary tensor dtype {boundaries.dtype.scalar_name} and input value tensor dtype "
            f"{values.dtype.scalar_name}"
        )
    if out_int32 and boundaries.shape[-1] >= 2**31 - 1:
        raise RuntimeError(
            f"{name}the size of boundaries' last dimension should be less than {2**31 - 1}, but we "
            f"got {boundaries.shape[-1]}"
        )
    wanted = dtypes.int32 if out_int32 else dtypes.int64
    if out is not None and out.dtype is not wanted:
        raise RuntimeError(
            f"{name}output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) "
            f"depending on whether out_int32 flag is True, but we got output tensor's dtype "
            f"{out.dtype.scalar_name} and out_int32 flag is {out_int32}"
        )


def _check_search_shapes(name, boundaries, values, sorter):
    if not values.dim() and boundaries.dim() != 1:
        raise RuntimeError(
            f"{name}input value can be a scalar only when boundaries tensor dimension is 1, but we "
            f"got boundaries tensor dim({boundaries.dim()}) and input value's dim(0) numel(1)"
        )
    if boundaries.dim() != 1 and boundaries.shape[:-1] != values.shape[:-1]:
        raise RuntimeError(
            f"{name}boundaries tensor should be 1 dimension or the first N-1 dimensions of "
            "boundaries tensor and input value tensor must match, but we got boundaries tensor "
            f"{text(boundaries.shape)} and input value tensor {text(values.shape)}"
        )
    if sorter is None:
        return
    if sorter.shape != boundaries.shape:
        raise RuntimeError(
            f"{name}boundary and sorter must have the same size, but got boundary tensor "
            f"{text(boundaries.shape)}and got sorter tensor {text(sorter.shape)}"
        )
    if sorter.dtype is not dtypes.int64:
        raise RuntimeError(
            f"{name}sorter must be a tensor of long dtype but got dtype {sorter.dtype.scalar_name}"
        )
    places = sorter._array
    if places.size and not (places.min() >= 0 and places.max() < places.shape[-1]):
        raise RuntimeError(f"{name}sorter index out of range")
