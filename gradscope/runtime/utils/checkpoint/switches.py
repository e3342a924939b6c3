"""Switches that override the options of all checkpoints inside a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import local
from typing import Self


@dataclass
class _Switches:
    """The present overrides. None: the option of the checkpoint counts."""

    debug: bool | None = None
    early_stop: bool | None = None


switches = _Switches()


@contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Set `debug` of all checkpoints inside the block."""
    before, switches.debug = switches.debug, enabled
    try:
        yield
    finally:
        switches.debug = before


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Choose whether checkpoints inside the block stop recomputing once all saved tensors exist."""
    before, switches.early_stop = switches.early_stop, enable
    try:
        yield
    finally:
        switches.early_stop = before


class _Groups(local):
    current: GraphExecGroup | None = None


_groups = _Groups()


class GraphExecGroup:
    """Backwards inside the block share recomputations: each checkpoint runs again at most once.

    They must not need the same saved tensor twice.
    """

    def __enter__(self) -> Self:
        if _groups.current is not None:
            raise RuntimeError(
                f"GraphExecGroup contexts cannot be nested. Already inside group {_groups.current}"
            )
        _groups.current = self
        return self

    def __exit__(self, *error: object) -> None:
        _groups.current = None

    @classmethod
    def _get_current_group(cls) -> GraphExecGroup | None:
        return _groups.current
