"""Tensors from arrays, detached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradscope.runtime.core.graph.node import new
from gradscope.runtime.core.state.array_calls import layout_only
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors.views.inference import mark

Tensor: Any = None
"""The tensor class, set when it is defined."""


@layout_only
def wrap(array: Any) -> Any:
    """A detached tensor with this array."""
    made = new(Tensor)
    made._array = array if array.__class__ is np.ndarray else np.asarray(array)
    made._edge = None
    made._meta = None
    made._versions = None
    made._storage = None
    made.record_nr = 0
    return made


@layout_only
def fresh(array: Any) -> Any:
    """A tensor as users create it: an inference tensor in inference mode."""
    made = wrap(array)
    if local.state.inference:
        mark(made)
    return made


@layout_only
def wrap_all(arrays: Sequence[Any]) -> Any:
    """Tensors from several arrays. None stays None."""
    return tuple(None if array is None else wrap(array) for array in arrays)


@layout_only
def wrapped_number(value: Any) -> Any:
    """A Python number as a tensor that does not affect type promotion with tensors."""
    if isinstance(value, np.generic):
        value = value.item()
    made = wrap(np.asarray(value))  # in double precision, whatever the result's
    made.__dict__["wrapped_number"] = value
    return made
