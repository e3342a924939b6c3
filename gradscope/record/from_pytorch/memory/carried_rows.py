"""Rows of calls that read what collectives of the program have written.

See Note [Carried by memory] in watch/called/ranks/carried.py: what a call has read is a mark, of a
collective (a negative number) or of the result of another call (its stamp).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from gradscope.record.from_pytorch.called.came_in import VIEWS
from gradscope.record.from_pytorch.memory.storage_rows import put
from gradscope.record.notes.log import Ints
from gradscope.trace.schema import NONE, Used
from gradscope.watch.called.ranks import carried_columns as row

if TYPE_CHECKING:
    from gradscope.record.from_pytorch.called.in_place import InPlace
    from gradscope.record.from_pytorch.called.pytorch_calls import PyTorchCalls
    from gradscope.record.session import Session
    from gradscope.watch.called.ranks.carried import CarriedWrites

USED = "span", "name", "t", "thread", "stack", "direct", "graph", "first", "many"
WITHOUT_VALUES = ("_like", "zero_", "fill_", "normal_", "uniform_", "random_", "bernoulli_")
"""Ends of names of calls whose results do not depend on the values of their first argument."""
NEW = "new_"
READS_NOTHING = VIEWS | {"detach", "as_strided", "_unsafe_view"}
OF_BACKENDS = "c10d::"
MOST_READ, MOST_USED = 2, 6
"""Number of rows per collective: of calls without nodes that read it, and of calls with nodes."""
MOST_KNOWN = 1 << 14
"""Number of marks that are remembered."""

Spans = frozenset[int]


class CarriedRows:
    """Collects these rows for one recording."""

    def __init__(self, session: Session, calls: PyTorchCalls, in_place: InPlace) -> None:
        self._session, self._calls, self._in_place = session, calls, in_place
        self.carried: CarriedWrites | None = None
        self._of: dict[int, Spans] = {}
        self._many: Counter[tuple[int, bool]] = Counter()
        self._rows: list[tuple[Any, ...]] = []

    def marked(self, span: int, mark: int) -> None:
        """What this collective has written has this mark."""
        if mark:
            self._of[mark] = frozenset((span,))

    def flush(self) -> None:
        """Pass new rows to the writer."""
        rows = None if self.carried is None else self.carried.read()
        if rows is not None and len(rows):
            self._read(rows)
        if len(self._of) > MOST_KNOWN:
            for old in list(self._of)[: MOST_KNOWN // 2]:
                del self._of[old]
        put(self._session.writer.block, Used, USED, self._rows)

    def _read(self, rows: Ints) -> None:
        session = self._session
        threads = {ident: thread for thread, ident in session.contexts.threads.idents().items()}
        stacks = self._in_place.stacks_of(rows[:, row.LINE]).tolist()
        for each, stack in zip(rows.tolist(), stacks, strict=True):
            name = self._calls.name(each[row.WORD])
            read = [
                (mark, each[row.GRAPHS] >> at & 1, self._of.get(mark, frozenset()))
                for at, mark in enumerate(each[row.READ :])
                if mark
            ]
            made = each[row.MANY] > 0
            if not made:
                empty = name.endswith(WITHOUT_VALUES) or name.startswith(NEW)
                spans = (
                    frozenset[int]() if empty else frozenset[int]().union(*(s for *_, s in read))
                )
                self._of[each[row.STAMP]] = spans
            about = (
                session.writer.intern(name), each[row.END] - session.start,
                threads.get(each[row.THREAD], NONE), stack,
            )  # fmt: skip
            nodes = (each[row.FIRST], each[row.MANY]) if made else (NONE, 0)
            reads = name not in READS_NOTHING and not name.startswith(OF_BACKENDS)
            for mark, graph, spans in read:
                for span in sorted(spans) if made or (mark < 0 and reads) else ():
                    self._add(span, made, (span, *about, int(mark < 0), graph, *nodes))

    def _add(self, span: int, made: bool, row: tuple[Any, ...]) -> None:
        self._many[span, made] += 1
        if self._many[span, made] <= (MOST_USED if made else MOST_READ):
            self._rows.append(row)
