"""Calls that made no node and returned what is not finite, as rows: the data that is prepared."""

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
"""Calls whose result is memory that nobody has written to yet."""

TAKES_NUMBERS_IN = "lift_fresh"
"""The call by which PyTorch makes a tensor of what lists, arrays and files hold."""

BRING_IN = FROM_NUMBERS | {TAKES_NUMBERS_IN}


class NotFiniteCalls:
    """Takes what was put down of them, whenever notes are flushed."""

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
        """Rows of the calls; of what they returned, `PyTorchValues` writes them."""
        if self.seen is None or self._calls.whole:  # all calls are told at level `full`
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
        """As the program says it, of what brings numbers in."""
        name = self._calls.name(word)
        if name != TAKES_NUMBERS_IN:
            return name
        users = self._in_place.users(line)
        called = "" if users is None else called_at(*users)
        return called if called in FROM_NUMBERS else name
