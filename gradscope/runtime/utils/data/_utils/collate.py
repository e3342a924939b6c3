"""Collation of samples to a batch: tensors are stacked, containers keep their structure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from copy import copy
from typing import Any, Final

import numpy as np

from gradscope.runtime.core.dtypes.dtypes import float64
from gradscope.runtime.core.rows.offered import FUNCTIONS
from gradscope.runtime.core.tensors.making.factories import as_tensor, tensor
from gradscope.runtime.core.tensors.tensor.tensor import Tensor

default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)

_NO_NUMBERS: Final = frozenset("SaUO")
"""NumPy's kinds of strings and objects."""

CollateMap = dict[Any, Callable[..., Any]]


def default_convert(data: Any) -> Any:
    """One sample, with NumPy's arrays and scalars converted to tensors."""
    if isinstance(data, Tensor):
        return data
    kind = type(data)
    if kind.__module__ == "numpy" and kind.__name__ not in {"str_", "string_"}:
        texts = isinstance(data, np.ndarray) and _has_no_numbers(data)
        return data if texts else as_tensor(data)
    return _rebuilt(data, default_convert)


def _has_no_numbers(array: Any) -> bool:
    return not _NO_NUMBERS.isdisjoint(array.dtype.str)


def _rebuilt(data: Any, change: Callable[[Any], Any]) -> Any:
    """The same container with changed values; anything else unchanged."""
    if isinstance(data, Mapping):
        return _mapping_like(data, {key: change(data[key]) for key in data})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(change(each) for each in data))
    if isinstance(data, tuple):
        return [change(each) for each in data]
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return _sequence_like(data, [change(each) for each in data])
    return data


def _mapping_like(model: Any, values: dict[Any, Any]) -> Any:
    """A mapping of the model's class with these values, if that class can be constructed."""
    try:
        if isinstance(model, MutableMapping):
            made = copy(model)
            made.update(values)
            return made
        return type(model)(values)
    except TypeError:
        return values


def _sequence_like(model: Any, values: list[Any]) -> Any:
    try:
        if isinstance(model, MutableSequence):
            made = copy(model)
            for i, value in enumerate(values):
                made[i] = value
            return made
        return type(model)(values)
    except TypeError:
        return values


def collate(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Collate samples by the functions in this map for their types."""
    first = batch[0]
    known = collate_fn_map or {}
    if type(first) in known:
        return known[type(first)](batch, collate_fn_map=collate_fn_map)
    for kind, function in known.items():
        if isinstance(first, kind):
            return function(batch, collate_fn_map=collate_fn_map)

    def together(samples: Any) -> Any:
        return collate(samples, collate_fn_map=collate_fn_map)

    if isinstance(first, Mapping):
        return _mapping_like(first, {k: together([each[k] for each in batch]) for k in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*map(together, zip(*batch, strict=False)))
    if not isinstance(first, Sequence):
        raise TypeError(default_collate_err_msg_format.format(type(first)))
    if any(len(each) != len(first) for each in batch):
        raise RuntimeError("each element in list of batch should be of equal size")
    columns = [together(column) for column in zip(*batch, strict=False)]
    return columns if isinstance(first, tuple) else _sequence_like(first, columns)


def collate_tensor_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    return FUNCTIONS["stack"](list(batch), 0)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    if _has_no_numbers(batch[0]):
        raise TypeError(default_collate_err_msg_format.format(batch[0].dtype))
    return collate([as_tensor(each) for each in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    return as_tensor(batch)


def collate_float_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    return tensor(batch, dtype=float64)


def collate_int_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    return tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    return batch


default_collate_fn_map: CollateMap = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}
"""Collate functions by type. Programs may add types."""


def default_collate(batch: Any) -> Any:
    """Collate samples to a batch: the first dim counts the samples."""
    return collate(batch, collate_fn_map=default_collate_fn_map)
