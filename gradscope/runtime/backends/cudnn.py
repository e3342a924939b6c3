"""cuDNN is not available: its switches have no effect."""

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
    """Set the switches inside the block, without effect."""
    yield
