"""Holdings: places in a program's state, their values, and whether they are unchanged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from gradscope.runtime.fast.capture.recording.recording import PLAIN
from gradscope.runtime.fast.capture.recording.watching import STAND_INS

ABSENT: Any = object()


@dataclass(frozen=True, slots=True)
class Holding:
    """A place in the program's state, and its value.

    `kind` is "item" (of a dict, list or class), "type" (of an item), "size" or "keys" (of a
    container), "ids" (of keys that may not be compared), "cell" or "slot" (of an object without a
    `__dict__`).
    """

    owner: Any
    key: Any
    value: Any
    kind: str
    name: str


def order_of(owner: Any, keys: Iterable[Any], name: str) -> Holding:
    """The keys or elements in order. Tensors are not compared by `==`."""
    listed = list(keys)
    if not listed:
        return Holding(owner, None, 0, "size", name)
    if all(isinstance(key, PLAIN) for key in listed):
        return Holding(owner, None, listed, "keys", name)
    return Holding(owner, None, list(map(id, listed)), "ids", name)


def now(holding: Holding) -> Any:
    """The present value; ABSENT if there is none."""
    owner, key = holding.owner, holding.key
    try:
        if holding.kind == "size":
            return len(owner)
        if holding.kind == "keys":
            return list(owner)
        if holding.kind == "ids":
            return list(map(id, owner))
        if holding.kind == "type":
            return type(owner[key])
        if holding.kind == "cell":
            return owner.cell_contents
        if holding.kind == "slot":
            return getattr(owner, key, ABSENT)
        return owner[key]
    except (KeyError, IndexError, ValueError):
        return ABSENT


def same(found: Any, before: Any) -> bool:
    """Whether a value is the earlier one, or an indistinguishable plain value."""
    if found is before or _behind(found) is _behind(before):
        return True
    if type(found) is not type(before):
        return False
    if isinstance(found, float | complex):
        return repr(found) == repr(before)  # -0.0 is not 0.0, and NaN is NaN
    if isinstance(found, tuple | list):  # a list of keys
        return len(found) == len(before) and all(map(same, found, before))
    if isinstance(found, np.generic):
        return found.tobytes() == before.tobytes()
    if isinstance(found, PLAIN) or _is_a_bound_method(found):
        return bool(found == before)
    return False


def _behind(value: Any) -> Any:
    """The original of a function that a watcher replaces."""
    value = getattr(value, "stands_for", value) if isinstance(value, property) else value
    while isinstance(value, FunctionType) and value.__code__.co_filename == STAND_INS:
        value = getattr(value, "__wrapped__", None)
    return value


def _is_a_bound_method(value: Any) -> bool:
    return type(value) is type("".join) or type(value).__name__ == "method"


def brief(value: Any) -> str:
    if value is ABSENT:
        return "not there"
    text = repr(value) if isinstance(value, PLAIN) else f"a {type(value).__name__}"
    return text if len(text) <= 40 else text[:37] + "…"
