"""`torch.testing.assert_close`: compares tensors, numbers and containers within tolerances."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.errors import missing
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.core.tensors.wrapping import wrap
from gradscope.runtime.testing._creation import make_tensor

__all__ = ["assert_close", "make_tensor"]

_TOLERANCES = {
    dtypes.float16: (1e-3, 1e-5),
    dtypes.bfloat16: (1.6e-2, 1e-5),
    dtypes.float32: (1.3e-6, 1e-5),
    dtypes.float64: (1e-7, 1e-7),
    dtypes.complex64: (1.3e-6, 1e-5),
    dtypes.complex128: (1e-7, 1e-7),
}


@dataclass(frozen=True)
class _Options:
    """Tolerances, and further properties that must agree."""

    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_dtype: bool
    check_stride: bool


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere."""
    if (rtol is None) != (atol is None):
        raise ValueError(
            "Both 'rtol' and 'atol' must be either specified or unspecified, but got no "
            f"{'rtol' if rtol is None else 'atol'}"
        )
    options = _Options(rtol, atol, equal_nan, check_dtype, check_stride)
    fault = _fault(actual, expected, options, "")
    if fault is None:
        return
    if callable(msg):
        fault = msg(fault)
    raise AssertionError(fault if not isinstance(msg, str) else msg)


def _fault(actual: Any, expected: Any, options: _Options, place: str) -> str | None:
    """The difference as text, or None."""
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if actual.keys() != expected.keys():
            return f"The keys of the mappings do not match{place}"
        pairs = [(actual[key], expected[key], f"[{key!r}]") for key in actual]
        return _first_fault(pairs, options, place)
    if _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            return f"The length of the sequences mismatch: {len(actual)} != {len(expected)}"
        pairs = [(a, b, f"[{i}]") for i, (a, b) in enumerate(zip(actual, expected, strict=True))]
        return _first_fault(pairs, options, place)
    if actual is None or expected is None:
        return None if actual is expected else f"None mismatch: {actual} is not {expected}"
    scalar = not isinstance(actual, Tensor) and not isinstance(expected, Tensor)
    return _tensor_fault(_tensor(actual), _tensor(expected), options, place, scalar=scalar)


def _first_fault(pairs: Sequence[Any], options: _Options, place: str) -> str | None:
    faults = (_fault(a, b, options, place + inner) for a, b, inner in pairs)
    return next((fault for fault in faults if fault is not None), None)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _tensor(value: Any) -> Any:
    return value if isinstance(value, Tensor) else wrap(np.asarray(value))


def _tensor_fault(
    actual: Any, expected: Any, options: _Options, place: str, *, scalar: bool
) -> str | None:
    kind = "Scalars" if scalar else "Tensor-likes"
    where = f"\n\nThe failure occurred for item {place}" if place else ""
    if actual.shape != expected.shape:
        return (
            f"The values for attribute 'shape' do not match: {actual.shape} != "
            f"{expected.shape}.{where}"
        )
    if options.check_dtype and not scalar and actual.dtype is not expected.dtype:
        return (
            f"The values for attribute 'dtype' do not match: {actual.dtype} != "
            f"{expected.dtype}.{where}"
        )
    if options.check_stride and actual.stride() != expected.stride():
        return (
            f"The values for attribute 'stride()' do not match: {actual.stride()} != "
            f"{expected.stride()}.{where}"
        )
    tolerances = _tolerances(actual, expected, options)
    return _value_fault(actual, expected, tolerances, options, f"{kind} are not", where)


def _tolerances(actual: Any, expected: Any, options: _Options) -> tuple[float, float]:
    if options.rtol is not None and options.atol is not None:
        return options.rtol, options.atol
    both = [_TOLERANCES.get(t.dtype, (0.0, 0.0)) for t in (actual, expected)]
    return max(b[0] for b in both), max(b[1] for b in both)


def _value_fault(
    actual: Any,
    expected: Any,
    tolerances: tuple[float, float],
    options: _Options,
    head: str,
    where: str,
) -> str | None:
    rtol, atol = tolerances
    wide = np.complex128 if "c" in {t._array.dtype.kind for t in (actual, expected)} else np.float64
    found, wanted = actual._array.astype(wide), expected._array.astype(wide)
    close = np.isclose(found, wanted, rtol=rtol, atol=atol, equal_nan=options.equal_nan)
    if close.all():
        return None
    exact = rtol == 0 == atol
    difference = np.where(close, 0, np.abs(found - wanted))
    relative = difference / np.abs(wanted)
    if not actual.dim():
        return (
            f"{head} {'equal' if exact else 'close'}!\n\nExpected {wanted} but got {found}.\n"
            f"Absolute difference: {float(difference)} (up to {atol} allowed)\n"
            f"Relative difference: {float(relative)} (up to {rtol} allowed){where}"
        )
    most = [np.unravel_index(int(np.nanargmax(d)), d.shape) for d in (difference, relative)]
    places = [tuple(int(i) for i in index) for index in most]
    wrong, all_of_them = int((~close).sum()), close.size
    return (
        f"{head} {'equal' if exact else 'close'}!\n\nMismatched elements: {wrong} / {all_of_them} "
        f"({wrong / all_of_them:.1%})\n"
        f"Greatest absolute difference: {difference[most[0]]} at index {places[0]} (up to {atol} "
        f"allowed)\n"
        f"Greatest relative difference: {relative[most[1]]} at index {places[1]} (up to {rtol} "
        f"allowed){where}"
    )


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.testing", name, list(globals()))
