"""Whether attention may take shorter ways in evaluation; results are the same but for padding."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class _Switch:
    enabled: bool = True


_switch = _Switch()


def get_fastpath_enabled() -> bool:
    """Whether the shorter way is allowed."""
    return _switch.enabled


def set_fastpath_enabled(value: bool) -> None:
    """Allow the shorter way, or not."""
    _switch.enabled = value
