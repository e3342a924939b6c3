"""Arguments of calls besides tensors, if they were read from nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import orjson

Value: TypeAlias = bool | int | float | str | list["Value"]
Given: TypeAlias = Mapping[str, Value]


def arguments_of(text: str) -> Given:
    """The contents of `node.arguments`."""
    given: Given = orjson.loads(text or "{}")
    return given


def in_words(given: Given) -> str:
    """As in a call: `dim=0, keepdim=False`.

    Numbers have six digits, because engines store them in different precisions.
    """
    return ", ".join(f"{name}={_word(value)}" for name, value in given.items())


def _word(value: object) -> str:
    if isinstance(value, list):
        inside = ", ".join(map(_word, value))
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
