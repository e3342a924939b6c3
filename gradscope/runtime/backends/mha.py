"""Fast paths of attention in evaluation; results are the same except for padding."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class _Switch:
    enabled: bool = True


_switch = _Switch()


def get_fastpath_enabled() -> bool:
    """Whether the fast path is allowed."""
    return _switch.enabled


def set_fastpath_enabled(value: bool) -> None:
    """Allow or forbid the fast path."""
    _switch.enabled = value
