"""Sets of what is alive, which other threads add to at any time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar
from weakref import WeakSet

T = TypeVar("T")


class Alive(WeakSet[T]):
    """A weak set that may be gone through while another thread changes it: what is there now."""

    def __iter__(self) -> Iterator[T]:
        data: Any = self.data  # type: ignore[attr-defined]  # the references
        found = [reference() for reference in list(data)]  # copied in one step
        return iter([each for each in found if each is not None])
