"""cuDNN is not here, so none of its switches changes anything."""

from __future__ import annotations


def is_available() -> bool:
    return False


enabled = False
benchmark = False
deterministic = False
allow_tf32 = False


def version() -> None:
    return None
