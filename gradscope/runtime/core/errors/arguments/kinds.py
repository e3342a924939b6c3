"""Whether a value is of the kind that a parameter takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradscope.runtime.core.dtypes.names import tp_name

UNKNOWN: Any = object()
"""Stands for a value that is not known any more; it is of every kind."""

UNTOLD = "?"
"""The class of such a value, where it should be named."""


def fits(kind: str, value: Any) -> bool:
    """Whether PyTorch takes this value, going by its class; of a list, by that of the first."""
    return value is UNKNOWN or _FITS[kind](value)


def wrong_place(kind: str, value: Any) -> int | None:
    """The first element that is not of the kind of the others, of a list of sizes."""
    if kind not in {"ints", "ints1"} or not isinstance(value, list | tuple):
        return None
    return next((i for i, each in enumerate(value) if not (is_whole(each) or _bool(each))), None)


def is_whole(value: Any) -> bool:
    """Whether a value counts as an int: no bool, but a tensor of one whole number."""
    if is_tensor(value):
        return bool(_single(value) and value._array.dtype.kind in "iu")
    return hasattr(value, "__index__") and not _bool(value)


def is_tensor(value: Any) -> bool:
    return hasattr(type(value), "_array")


def type_name(value: Any) -> str:
    """A value's class, as PyTorch's errors name it."""
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
    "Tensors": lambda value: isinstance(value, list | tuple),  # each is looked at by who takes them
    "out": lambda value: is_tensor(value) or _TENSORS(value),
    "dtype": lambda value: _ours("dtype")(value) or value in (bool, int, float, complex),
    "device": _ours("device", str, int),
    "layout": _ours("layout"),
    "format": _ours("memory_format"),
    "Generator": _ours("Generator"),
}
