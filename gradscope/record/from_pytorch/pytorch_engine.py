"""PyTorch, as an engine that can be recorded."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from gradscope.record.from_pytorch import installed
from gradscope.record.from_pytorch.claims import claims
from gradscope.record.from_pytorch.threads import PyTorchThread, UnderWay, known, local
from gradscope.record.source import InScripts

if TYPE_CHECKING:
    from gradscope.record.session import Session
    from gradscope.record.source import RecordingSource

TEMPORARY = ("TMPDIR", "TEMP", "TMP")
_FOLDER = next((os.environ[each] for each in TEMPORARY if each in os.environ), f"{os.sep}tmp")
GENERATED = os.environ.get("TORCHINDUCTOR_CACHE_DIR") or f"{_FOLDER}{os.sep}torchinductor_"
"""Beginning of the paths of code that a compiler has generated."""


class PyTorch:
    """The PyTorch that the program imports or has imported."""

    local = local
    contexts_name_steps = False  # each has a time

    def __init__(self) -> None:
        folder = installed.folder()
        self.machinery: tuple[str, ...] = () if folder is None else (f"{folder}/", GENERATED)

    @property
    def in_scripts(self) -> InScripts:
        return InScripts(staged=nullcontext, explain=_nothing_more)

    def threads(self) -> Iterable[PyTorchThread]:
        return known()

    def is_watched(self) -> bool:
        return UnderWay.now

    def facts(self, level: str) -> Mapping[str, Any]:
        return {"producer": "pytorch", "producer_version": installed.version(), **claims(level)}

    def watch(self, session: Session) -> RecordingSource:
        from gradscope.record.from_pytorch.source import PyTorchSource

        return PyTorchSource(session)


def _nothing_more(error: BaseException) -> None:
    """Add nothing to errors: PyTorch's own messages are complete."""
