"""Writes calls without a node whose result is not finite, as in the preparation of data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gradscope.record.acts.source.source_lines import called_at
from gradscope.trace import schema
from gradscope.trace.ragged import Ragged
from gradscope.trace.schema import FROM_NUMBERS, NONE, Place
from gradscope.watch.values import ring_rows as row

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradscope.record.from_pytorch.called.in_place import InPlace
    from gradscope.record.from_pytorch.called.pytorch_calls import PyTorchCalls
    from gradscope.record.from_pytorch.values import PyTorchValues
    from gradscope.record.session import Session
    from gradscope.watch.values.without_node import WithoutNode


UNWRITTEN = frozenset({
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_",
})  # fmt: skip
"""Calls whose result is uninitialized memory."""

TAKES_NUMBERS_IN = "lift_fresh"
"""The call with which PyTorch creates a tensor from lists, arrays and files."""

BRING_IN = FROM_NUMBERS | {TAKES_NUMBERS_IN}


class NotFiniteCalls:
    """Reads the records of such calls whenever notes are flushed."""

    def __init__(
        self,
        session: Session,
        calls: PyTorchCalls,
        in_place: InPlace,
        values: PyTorchValues,
        next_number: Callable[[], int],
    ) -> None:
        self._session = session
        self._calls = calls
        self._in_place = in_place
        self._values = values
        self._next_number = next_number
        self.seen: WithoutNode | None = None

    def write(self) -> None:
        """Write rows of the calls; those of their results are written by `PyTorchValues`."""
        if self.seen is None or self._calls.whole:  # all calls are recorded at level `full`
            return
        seen = self.seen.read()
        if not len(seen):
            return
        self._in_place.stacks_of(seen[:, row.LINE])
        lines, words = seen[:, row.LINE].tolist(), seen[:, row.WORD].tolist()
        names = [self._name(*each) for each in zip(words, lines, strict=True)]
        said = [place for place, name in enumerate(names) if name not in UNWRITTEN]
        if not said:
            return
        seen, names = seen[said], [names[place] for place in said]
        places = [Place.LEAF if name in BRING_IN else Place.OP_OUTPUT for name in names]
        session = self._session
        threads = {ident: thread for thread, ident in session.contexts.threads.idents().items()}
        begin = seen[:, row.BEGIN] - session.start
        ids = np.array([self._next_number() for _ in seen], np.int64)
        steps = session.contexts.steps.at(begin)
        thread = [threads.get(ident, NONE) for ident in seen[:, row.THREAD].tolist()]
        session.writer.block(schema.Op, {
            "id": ids, "name": [session.writer.intern(name) for name in names], "begin": begin,
            "end": seen[:, row.END] - session.start, "thread": np.array(thread, np.int64),
            "stack": self._in_place.stacks(seen[:, row.LINE]), "step": steps,
        })  # fmt: skip
        nothing = np.full(len(seen), NONE)
        results = Ragged.of_lengths(np.ones(len(seen), np.int64), nothing)
        self._values.made(
            seen[:, row.CALL], ids, results, nothing, steps, np.array(places, np.int64)
        )

    def _name(self, word: int, line: int) -> str:
        """The name in the program of a call that creates tensors from data."""
        name = self._calls.name(word)
        if name != TAKES_NUMBERS_IN:
            return name
        users = self._in_place.users(line)
        called = "" if users is None else called_at(*users)
        return called if called in FROM_NUMBERS else name
