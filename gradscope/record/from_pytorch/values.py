"""Level `values`: statistics of results, of what nodes take and return, of what arrives in leaves.

Results are looked at as their calls end, by the number of the call; which node that made is known
when a backward has come to it. Gradients are looked at in hooks on nodes. What a node keeps and no
node made is looked at in the walk that finds the node: it is an operand of the call.
"""

from __future__ import annotations

from collections import deque
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from gradscope.record.notes.log import taken
from gradscope.record.notes.statistics import Statistics, statistics
from gradscope.trace.schema import NONE, Place, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gradscope.record.session import Session

MOST_KEPT = 1 << 15
"""So many calls may wait for a backward to come to the nodes they made."""

COLUMNS = ("place", "op", "node", "index", "tensor", "task", "step", "t")
NUMBERS = ("count", "nan", "posinf", "neginf", "zero", "min", "max", "mean", "rms", "norm", "bad")


class Values:
    """Rows of statistics. `numbers` finds the array at an address; None: there is none to read."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.on = False
        self.numbers: Callable[[int], Any] = _nothing
        self._results: dict[int, list[tuple[int, Statistics, int]]] = {}
        self._ended: deque[int] = deque()
        self._rows: list[tuple[tuple[int, ...], Statistics]] = []
        self._count = 0
        self._told: set[tuple[int, int]] = set()  # leaves of tasks, whose hooks are being called
        self.dropped = self.unread = 0

    # -- results of calls -----------------------------------------------------------------------

    def result(self, call: int, place: int, tensor: int) -> None:
        """A call that may have made a node has returned a tensor."""
        found = self._statistics(tensor)
        if found is None:
            return
        known = self._results.get(call)
        if known is None:
            known = self._results[call] = []
            self._ended.append(call)
            if len(self._ended) > MOST_KEPT:
                self.dropped += self._results.pop(self._ended.popleft(), None) is not None
        known.append((place, found, perf_counter_ns() - self._session.start))

    def made(self, call: int, op: int, outputs: Sequence[int], task: int, step: int) -> None:
        """This call is known now."""
        for place, found, t in self._results.pop(call, ()):
            tensor = outputs[place] if place < len(outputs) else NONE
            self._rows.append((
                (Place.OP_OUTPUT, op, NONE, place, tensor, task, step, t), found
            ))  # fmt: skip

    # -- at nodes, and of leaves ----------------------------------------------------------------

    def look(
        self,
        place: Place,
        value: Any,
        node: int = NONE,
        index: int = 0,
        tensor: int = NONE,
        task: int = NONE,
        *,
        at: int | None = None,
    ) -> None:
        """A tensor that is at hand, at an input or output of a node; or a leaf, of no node."""
        found = None if value is None else self._statistics(value._cdata)
        if found is not None:
            now = perf_counter_ns() - self._session.start if at is None else at
            step = self._session.contexts.step
            self._rows.append(((place, NONE, node, index, tensor, task, step, now), found))

    def all(self, place: Place, values: Sequence[Any], node: int, task: int) -> None:
        """All inputs or outputs of a node."""
        for index, value in enumerate(values):
            self.look(place, value, node, index, task=task)

    def gathered(self, hook: int, grad: Any, node: int, leaf: int, task: int) -> None:
        """The `.grad` of a leaf: before the first hook that is told of it, after each, or at last.

        `hook`: its kind; NONE: the node has run, and if there were hooks, all is told.
        """
        if hook != NONE and (task, node) in self._told:
            self.look(Place.HOOK, grad, node, 0, leaf, task)
        elif hook == NONE and (task, node) in self._told:
            self._told.discard((task, node))
        else:
            self.look(Place.GRAD, grad, node, 0, leaf, task)
            if hook != NONE:
                self._told.add((task, node))

    def _statistics(self, tensor: int) -> Statistics | None:
        array = self.numbers(tensor)
        if array is None:
            self.unread += 1
            return None
        return statistics(array)

    def flush(self) -> None:
        """Hand new rows to the writer."""
        rows = taken(self._rows)
        while self._ended and self._ended[0] not in self._results:
            self._ended.popleft()
        if not rows:
            return
        first, self._count = self._count, self._count + len(rows)
        wheres, found = zip(*rows, strict=True)
        columns: dict[str, Any] = {"id": list(range(first, self._count))}
        columns |= dict(zip(COLUMNS, map(list, zip(*wheres, strict=True)), strict=True))
        columns |= dict(zip(NUMBERS, map(list, zip(*found, strict=True)), strict=True))
        columns["place"] = [int(place) for place in columns["place"]]
        columns["seq"], columns["data"] = [NONE] * len(rows), [0] * len(rows)
        self._session.writer.block(Value, columns)


def _nothing(tensor: int) -> Any:
    return None
