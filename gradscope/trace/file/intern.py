"""Interned text: written once, then referred to by an id."""

from __future__ import annotations

import os
from threading import RLock
from typing import TYPE_CHECKING, Final

import numpy as np

from gradscope.trace.privacy.known import KnownSecrets
from gradscope.trace.privacy.secrets import masked, masked_code
from gradscope.trace.schema.tables import String
from gradscope.trace.table import Block
from gradscope.trace.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

# Note [Interrupted anywhere]
# Ctrl-C, or a signal handler that raises, can end any Python statement halfway; a recording must
# survive that. So each change of a writer's state is atomic: an append, or one assignment. If an
# interruption skips part of the bookkeeping, it can be done again.


LONGEST: Final = 1 << 23
"""Largest number of characters that are stored of a text: error messages have no limit."""


class InternedTexts:
    """Interned text. An id is an index in a list to which items are only appended."""

    def __init__(self) -> None:
        self._texts: list[str] = [""]
        self._ids: dict[str, int] = {"": 0}
        self._codes: dict[str, int] = {"": 0}  # of source texts, in which other secrets are masked
        self._known = KnownSecrets()
        self._lock: Final = RLock()  # the code of an interruption may intern text

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, id: int) -> str:
        return self._texts[max(id, 0)]  # NONE is also the empty text

    def intern(self, text: str) -> int:
        """The id of this text, with secrets masked; the same for the same text."""
        id = self._ids.get(text)
        return self._add(text, self._ids, masked, self._known.masked) if id is None else id

    def intern_code(self, text: str) -> int:
        """The id of a source text, with secrets masked in its literals and comments."""
        id = self._codes.get(text)
        if id is not None:
            return id
        return self._add(text, self._codes, masked_code, self._known.masked_code)

    def hide(self, secrets: Iterable[str]) -> None:
        """From now on, mask these secrets in every new text."""
        with self._lock:
            self._known = KnownSecrets(self._known.secrets | {*secrets})

    def _add(self, text: str, ids: dict[str, int], *masks: Callable[[str], str]) -> int:
        with self._lock:
            shown = clean(text if len(text) <= LONGEST else f"{text[:LONGEST]}…")
            for mask in masks:
                shown = mask(shown)
            id = ids.get(shown)
            if id is None:
                self._texts.append(shown)
                id = ids[shown] = len(self._texts) - 1
            ids[text] = id
            return id

    def block(self, ids: Sequence[int]) -> list[Block]:
        """The rows of these ids: one block, or none."""
        if not ids:
            return []
        texts = np.empty(len(ids), object)
        texts[:] = [self._texts[id] for id in ids]
        return [Block(String.TABLE, len(ids), {"id": np.array(ids, np.int64), "text": texts})]


class TextWriter:
    """The part of a writer that interns texts. A process forked from its own interns none."""

    def __init__(self) -> None:
        self._texts = InternedTexts()
        self._process = os.getpid()

    def intern(self, text: str) -> int:
        # In a fork, a thread that no longer exists may hold the lock.
        return 0 if self._process != os.getpid() else self._texts.intern(text)

    def intern_code(self, text: str) -> int:
        return 0 if self._process != os.getpid() else self._texts.intern_code(text)

    def hide(self, secrets: Iterable[str]) -> None:
        self._texts.hide(secrets)
