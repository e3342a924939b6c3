"""Whether attention may take shorter ways in evaluation; results are the same but for padding."""

from __future__ import annotations

_enabled = [True]


def get_fastpath_enabled() -> bool:
    """Whether the shorter way is allowed."""
    return _enabled[0]


def set_fastpath_enabled(value: bool) -> None:
    """Allow the shorter way, or not."""
    _enabled[0] = value
