"""cuDNN is not here, so none of its switches changes anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def is_available() -> bool:
    return False


enabled = False
benchmark = False
deterministic = False
allow_tf32 = False


def version() -> None:
    return None


@contextmanager
def flags(**_: Any) -> Iterator[None]:
    """A block in which the switches stand otherwise, which changes as little."""
    yield
