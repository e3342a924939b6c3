"""This thread's autocast settings, restored after a script has run."""

from __future__ import annotations

from gradscope.runtime.amp.autocast_mode import _local
from gradscope.runtime.amp.casting import Settings


def kept() -> Settings:
    return _local.settings


def put_back(before: Settings | None) -> None:
    _local.settings = before or Settings()
    _local.settings.tell()
