"""Factories of sequences: arange, linspace, logspace, range; and eye."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradscope.runtime.core.devices import devices
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.errors.arguments.check_when_failing import judged
from gradscope.runtime.core.errors.numpy import invalid_combination
from gradscope.runtime.core.kernels.arrays.fused import multiply_add
from gradscope.runtime.core.kernels.support import HALVES
from gradscope.runtime.core.state import upward
from gradscope.runtime.core.state.array_calls import captured_as
from gradscope.runtime.core.tensors.making.factories import dtype_named, new_leaf
from gradscope.runtime.core.tensors.tensor.tensor import Tensor


@judged
@captured_as("constant")
def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
    out: Any = None,
) -> Any:
    """A matrix with ones on the diagonal and zeros elsewhere."""
    for name, size in (("n", n), ("m", m)):
        if size is not None and size < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {size}")
    kind = _kind(dtype, out, dtypes.get_default_dtype())
    return _given(np.eye(n, m, dtype=kind), "eye", device, requires_grad, out)


def _kind(dtype: Any, out: Any, otherwise: Any) -> np.dtype[Any]:
    if out is None:
        kind: np.dtype[Any] = (otherwise if dtype is None else dtype_named(dtype)).numpy
        return kind
    if dtype is not None and dtype_named(dtype) is not out.dtype:
        raise RuntimeError(
            f"dtype {dtype_named(dtype).scalar_name} does not match dtype of out parameter "
            f"({out.dtype.scalar_name})"
        )
    return out._array.dtype


def _given(array: Any, name: str, device: Any, requires_grad: bool, out: Any) -> Any:
    if out is None:
        return new_leaf(array, requires_grad, devices.check(device))
    return upward.written(name, new_leaf(array), out)


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) else value


@judged
@captured_as("constant")
def arange(
    *bounds: Any,
    start: Any = None,
    end: Any = None,
    step: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
    out: Any = None,
) -> Any:
    """Values start, start + step, … below end."""
    given = [_number(b) for b in bounds]
    if not 1 <= len(given) + (end is not None) <= 3 or len(given) > 3:
        raise invalid_combination("arange", bounds)
    if len(given) == 1 and end is None:
        first, last = _number(start) or 0, given[0]
    else:
        first, last, *rest = [*given, _number(end)] if len(given) < 2 else given
        step = rest[0] if rest and rest[0] is not None else step
        first, last = (_number(start), first) if last is None else (first, last)
    by = 1 if step is None else _number(step)
    whole = all(isinstance(v, int | np.integer) for v in (first, last, by))
    kind = _kind(dtype, out, dtypes.int64 if whole else dtypes.get_default_dtype())
    return _given(_steps(first, last, by, kind), "arange", device, requires_grad, out)


def _steps(first: Any, last: Any, by: Any, kind: np.dtype[Any]) -> Any:
    if kind.kind == "b":
        raise NotImplementedError("\"arange_cpu\" not implemented for 'Bool'")
    if by == 0:
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(first) and math.isfinite(last)):
        raise RuntimeError(f"unsupported range: {first:g} -> {last:g}")
    if (last - first) * by < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if kind.kind in "iu":
        if int(by) == 0:
            raise ValueError("step must be nonzero")
        ends = (int(first), int(last), int(by)) if kind == np.int64 else (first, last, by)
        count = math.ceil((ends[1] - ends[0]) / ends[2])  # only int64 is counted in integers
        return (int(first) + np.arange(count) * int(by)).astype(kind)
    count = math.ceil((last - first) / by)
    return (first + np.arange(count, dtype=np.float64) * by).astype(kind)


@judged
@captured_as("constant")
def range(
    start: Any = 0,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    out: Any = None,
) -> Any:
    """Values start, start + step, … up to and including end. Prefer `arange`."""
    first, last = (0, start) if end is None else (start, end)
    count = math.floor((last - first) / step) + 1
    kind = _kind(dtype, out, dtypes.get_default_dtype())
    array = (first + np.arange(count) * step).astype(kind)
    return _given(array, "range", device, requires_grad, out)


def spaced(name: str, start: Any, end: Any, steps: Any, kind: np.dtype[Any]) -> Any:
    """Evenly spaced values, counted from the nearer end, in PyTorch's precision."""
    if kind.kind == "b":
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for 'Bool'")
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    whole = kind.kind in "iu"
    wide = np.dtype(np.float64) if whole else np.dtype(np.float32) if kind in HALVES else kind
    first, last = ((int(v) if whole else v) for v in (start, end))
    first, last = np.asarray(first).astype(wide), np.asarray(last).astype(wide)
    if steps < 2:
        return np.full(steps, first, wide)
    step = (last - first) / wide.type(steps - 1)
    places = np.arange(steps).astype(wide)
    near_end = np.arange(steps) >= steps // 2
    with np.errstate(all="ignore"):
        return np.where(
            near_end,
            multiply_add(-step, places[::-1], last),
            multiply_add(step, places, first),
        )


def _ends(name: str, start: Any, end: Any, steps: Any) -> tuple[Any, Any]:
    if not isinstance(steps, int):
        raise invalid_combination(name, (start, end, steps))
    tensors = [(n, v) for n, v in (("start", start), ("end", end)) if isinstance(v, Tensor)]
    if any(v._array.ndim for _, v in tensors):
        found = " and ".join(
            f"{'' if i else 'but got '}{n} with {v._array.ndim} dimension(s)"
            for i, (n, v) in enumerate(tensors)
        )
        raise RuntimeError(f"{name} only supports 0-dimensional start and end tensors, {found}.")
    return _number(start), _number(end)


def _usual(*numbers: Any) -> Any:
    is_complex = any(isinstance(n, complex) for n in numbers)
    return dtypes.default_complex_dtype() if is_complex else dtypes.get_default_dtype()


@judged
@captured_as("constant")
def linspace(
    start: Any,
    end: Any,
    steps: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
    out: Any = None,
) -> Any:
    """`steps` values, evenly spaced from start to end."""
    first, last = _ends("linspace", start, end, steps)
    kind = _kind(dtype, out, _usual(first, last))
    array = spaced("linspace", first, last, steps, kind).astype(kind)
    return _given(array, "linspace", device, requires_grad, out)


@judged
@captured_as("constant")
def logspace(
    start: Any,
    end: Any,
    steps: Any = None,
    base: float = 10.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
    out: Any = None,
) -> Any:
    """Powers of `base` whose exponents are evenly spaced."""
    first, last = _ends("logspace", start, end, steps)
    kind = _kind(dtype, out, _usual(first, last))
    exponents = spaced("logspace", first, last, steps, kind)
    with np.errstate(all="ignore"):
        array = np.power(np.asarray(base).astype(exponents.dtype), exponents).astype(kind)
    return _given(array, "logspace", device, requires_grad, out)
