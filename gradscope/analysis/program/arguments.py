"""What calls were given besides tensors, as far as nodes that were read keep it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import orjson

Value: TypeAlias = bool | int | float | str | list["Value"]
Given: TypeAlias = Mapping[str, Value]


def arguments_of(text: str) -> Given:
    """What `node.arguments` says."""
    given: Given = orjson.loads(text or "{}")
    return given


def in_words(given: Given) -> str:
    """As it would stand in a call: `dim=0, keepdim=False`.

    Numbers to six places: what one engine keeps in single precision, another keeps in double.
    """
    return ", ".join(f"{name}={_word(value)}" for name, value in given.items())


def _word(value: object) -> str:
    if isinstance(value, list):
        inside = ", ".join(map(_word, value))
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
