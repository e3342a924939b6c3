"""Weak sets that other threads may change at any time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar
from weakref import WeakSet

T = TypeVar("T")


class Alive(WeakSet[T]):
    """A weak set that can be iterated while other threads change it: a snapshot."""

    def __iter__(self) -> Iterator[T]:
        data: Any = self.data  # type: ignore[attr-defined]  # the references
        found = [reference() for reference in list(data)]  # copied in one step
        return iter([each for each in found if each is not None])
