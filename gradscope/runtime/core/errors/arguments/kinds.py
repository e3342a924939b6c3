"""Checks whether a value is of the kind that a parameter accepts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradscope.runtime.core.dtypes.names import tp_name

UNKNOWN: Any = object()
"""Placeholder for a value that is no longer known; it fits every kind."""

UNTOLD = "?"
"""Name of the class of such a value in a message."""


def fits(kind: str, value: Any) -> bool:
    """Whether PyTorch accepts this value by its class (for a list: by its first element)."""
    return value is UNKNOWN or _FITS[kind](value)


def wrong_place(kind: str, value: Any) -> int | None:
    """Index of the first element of a list of sizes that is not a size, or None."""
    if kind not in {"ints", "ints1"} or not isinstance(value, list | tuple):
        return None
    return next((i for i, each in enumerate(value) if not (is_whole(each) or _bool(each))), None)


def is_whole(value: Any) -> bool:
    """Whether a value counts as an int: also a tensor of one integer, but not a bool."""
    if is_tensor(value):
        return bool(_single(value) and value._array.dtype.kind in "iu")
    return hasattr(value, "__index__") and not _bool(value)


def is_tensor(value: Any) -> bool:
    return hasattr(type(value), "_array")


def type_name(value: Any) -> str:
    """Name of a value's class in PyTorch's errors."""
    return UNTOLD if value is UNKNOWN else tp_name(value)


def _single(tensor: Any) -> bool:
    return tensor._array.ndim == 0 and not tensor.requires_grad


def _bool(value: Any) -> bool:
    return type(value).__name__ in {"bool", "bool_"}


def _number(value: Any) -> bool:
    if is_tensor(value):
        return _single(value)
    return isinstance(value, int | float | complex) or hasattr(value, "__index__") or (
        type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0
    )  # fmt: skip


def _real(value: Any) -> bool:
    return _number(value) and not isinstance(value, complex)


def _list_of(one: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def fit(value: Any) -> bool:
        return isinstance(value, list | tuple) and (not value or one(value[0]))

    return fit


def _ours(name: str, *others: type) -> Callable[[Any], bool]:
    def fit(value: Any) -> bool:
        return type(value).__name__ == name or isinstance(value, others)

    return fit


_INTS = _list_of(is_whole)
_TENSORS = _list_of(is_tensor)
_FITS: dict[str, Callable[[Any], bool]] = {
    "Tensor": is_tensor,
    "operand": lambda value: is_tensor(value) or _number(value),
    "int": is_whole,
    "bool": _bool,
    "float": _real,
    "str": lambda value: isinstance(value, str),
    "Number": _number,
    "ints": _INTS,
    "ints1": lambda value: is_whole(value) or _INTS(value),
    "floats": _list_of(_real),
    "Numbers": _list_of(_number),
    "Tensors": lambda value: isinstance(value, list | tuple),  # the callee checks each
    "out": lambda value: is_tensor(value) or _TENSORS(value),
    "dtype": lambda value: _ours("dtype")(value) or value in (bool, int, float, complex),
    "device": _ours("device", str, int),
    "layout": _ours("layout"),
    "format": _ours("memory_format"),
    "Generator": _ours("Generator"),
}
