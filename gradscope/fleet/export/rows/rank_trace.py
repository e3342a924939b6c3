"""What all tables need of a trace: which rows belong to which step, in which order, and names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from gradscope.analysis.identity.leaves import fill_leaves, leaf
from gradscope.analysis.identity.steps import steps
from gradscope.analysis.lookups import Ids
from gradscope.analysis.program.acts import Acts
from gradscope.analysis.program.modules import module_names
from gradscope.analysis.timing.durations import look_up
from gradscope.fleet.export.cells import Flags, FleetCells, coded, distinct_of, integers
from gradscope.fleet.export.rows.lines import HashedLines
from gradscope.trace.ragged import Ragged
from gradscope.trace.schema import NONE, GraphTask, Module, Node, Step, Tensor
from gradscope.trace.trace import Table, Trace

LIMIT = np.iinfo(np.int64).max


class StepOrder:
    """The rows of a table that are exported, in the order of the fleet: by step, then by time.

    Rows outside of steps come last.
    """

    def __init__(self, rows: Ids, steps: Ids, known: Flags) -> None:
        self.rows = rows  # positions in the table
        self.steps, self.known = steps, known  # of each of these

    @cached_property
    def k(self) -> Ids:
        """The position of each row within its step."""
        at = np.arange(len(self.rows))
        new = np.ones(len(self.rows), bool)
        new[1:] = (self.steps[1:] != self.steps[:-1]) | (self.known[1:] != self.known[:-1])
        found: Ids = at - np.maximum.accumulate(np.where(new, at, 0))
        return found

    def keys(self) -> dict[str, FleetCells]:
        """The columns `step` and `k`."""
        return {"step": FleetCells(self.steps, self.known), "k": integers(self.k)}


class RankTrace:
    """The trace of one rank, and what its rows refer to.

    `unfinished`: with the step that was still running at the end of a trace that was not closed.
    """

    def __init__(self, trace: Trace, *, unfinished: bool = False) -> None:
        self.trace = trace
        self.lines = HashedLines(trace)
        self._base = int(trace.meta.get("clock_base", 0))
        self._number_steps(unfinished=unfinished or not trace.truncated)

    def _number_steps(self, *, unfinished: bool) -> None:
        table = self.trace.table(Step)
        rows = table.take(np.lexsort((table["id"], table["begin"])))
        self.recorded = {row.id for row in steps(self.trace)}
        """Ids of steps with contents."""
        self.running = () if unfinished else tuple(row for row in rows if row.end == NONE)
        """Steps that are not exported yet."""
        left = {row.id for row in self.running}
        if rows and rows[-1].id not in self.recorded | left:
            rows = rows[:-1]  # what follows the last step, without a backward
        self.steps = tuple(row for row in rows if row.id not in left)
        """The steps of the training, in order, also those without contents."""
        self._numbers = {row.id: row.number for row in self.steps}
        self._left = left

    @property
    def lets_go(self) -> bool:
        """Whether the recording keeps only some steps: others may have gone from the trace."""
        return "let_go" in self.trace.meta

    def recorded_from(self, first: int, last: int) -> int:
        """The number of recorded steps with these numbers."""
        return sum(step.id in self.recorded and first <= step.number <= last for step in self.steps)

    # Steps -----------------------------------------------------------------------------------

    def numbers(self, step_ids: Ids) -> tuple[Ids, Flags, Flags]:
        """The numbers of steps; which are in a step; and which are of a step that is running."""
        found, inverse = distinct_of(step_ids)
        few = found.tolist()
        number = np.array([self._numbers.get(each, 0) for each in few], np.int64)
        known = np.array([each in self._numbers for each in few], bool)
        left = np.array([each in self._left for each in few], bool)
        return number[inverse], known[inverse], left[inverse]

    def order(self, step_ids: Ids, *times: Ids) -> StepOrder:
        """All rows by step, then by these keys, then as they are in the table."""
        number, known, left = self.numbers(step_ids)
        rows = np.arange(len(step_ids))
        if left.any():
            rows = rows[~left]
            number, known, times = number[rows], known[rows], tuple(each[rows] for each in times)
        if not _rises(~known, number, *times):
            by = np.lexsort((*reversed(times), np.where(known, number, 0), ~known))
            rows, number, known = rows[by], number[by], known[by]
        return StepOrder(rows, np.where(known, number, 0), known)

    def of_tasks(self, tasks: Ids) -> Ids:
        """The step of each backward."""
        return look_up(self.trace.table(GraphTask), "step", tasks)

    @cached_property
    def event_tasks(self) -> Ids:
        """The backward of each event, in their order."""
        return self.trace.event_column("task")

    def moments(self, times: Ids) -> FleetCells:
        """Times of the trace in nanoseconds since 1970; NONE is NULL, and what is no time."""
        known = times != NONE
        base = self._base if 0 <= self._base < LIMIT else 0
        known &= (times <= LIMIT - base) & (times >= -base)
        return FleetCells(np.where(known, times, 0) + base, known)

    # Names -----------------------------------------------------------------------------------

    def text(self, table: Table[Any], column: str, rows: Ids) -> FleetCells:
        """A text column of a table; "" is NULL."""
        return self.strings(table.array(column)[rows])

    def strings(self, string_ids: Ids) -> FleetCells:
        """CellTexts by their ids in the trace; "" is NULL."""
        found, inverse = distinct_of(string_ids)
        words = self.trace.texts(found)
        numbers = np.array([at if words[at] else NONE for at in range(len(words))], np.int64)
        return coded(numbers[inverse], words)

    @cached_property
    def module_names(self) -> dict[int, str]:
        return module_names(self.trace)

    def modules(self, module_ids: Ids) -> FleetCells:
        """The paths of modules. The root of a model has none."""
        return self._words(module_ids, self.module_names)

    @cached_property
    def leaf_names(self) -> dict[int, str]:
        """The names of parameters and other leaves, by the ids of their tensors."""
        return {tensor: found.name for tensor, found in self.leaves.items() if found.name}

    @cached_property
    def leaves(self) -> dict[int, Any]:
        """What modules and optimizers hold, and leaves whose gradient is accumulated."""
        nodes, tensors = self.trace.table(Node), self.trace.table(Tensor)
        inputs = nodes.ragged("inputs")
        filled = inputs.values[fill_leaves(self.trace)[inputs.owners]]
        held = self.trace.table(Module).ragged("parameters").values
        stepped = [each for one in self.trace.once(Acts).optimizers for each in one.tensors]
        named = tensors["id"][(tensors["name"] > 0) & tensors["leaf"]]
        every = np.unique(np.concatenate([filled, held, np.array(stepped, np.int64), named]))
        known = every[tensors.positions(every) != NONE] if len(tensors) else every[:0]
        order = np.argsort(tensors.positions(known), kind="stable")
        return {id: leaf(self.trace, id) for id in known[order].astype(np.int64).tolist()}

    def parameters(self, tensors: Ids) -> FleetCells:
        """The names of those of these tensors that are parameters, or other leaves with a name."""
        return self._words(tensors, self.leaf_names)

    def titles(self, tensors: Iterable[int]) -> list[str]:
        """Names of leaves, "leaf 12" for those without one."""
        return [self.leaf_names.get(tensor) or f"leaf {tensor}" for tensor in tensors]

    def _words(self, ids: Ids, words: dict[int, str]) -> FleetCells:
        found, inverse = distinct_of(ids)
        known: list[str] = []
        numbers = np.full(len(found), NONE, np.int64)
        for at, id in enumerate(found.tolist()):
            if word := words.get(id):
                numbers[at] = len(known)
                known.append(word)
        return coded(numbers[inverse], known)

    def shapes(self, tensors: Ids) -> tuple[FleetCells, FleetCells]:
        """The shapes of tensors, as in "[32, 128]", and their dtypes."""
        table = self.trace.table(Tensor)
        at = table.positions(tensors) if len(table) else np.full(len(tensors), NONE, np.int64)
        some = np.flatnonzero(at != NONE)
        numbers = np.full(len(tensors), NONE, np.int64)
        words: dict[bytes, int] = {}
        found, inverse = distinct_of(at[some])
        cells = _bytes_of(table.ragged("shape").take(found)) if len(found) else []
        of = np.array([words.setdefault(each, len(words)) for each in cells], np.int64)
        numbers[some] = of[inverse] if len(some) else of
        dtypes = self.text(table, "dtype", np.maximum(at, 0)) if len(table) else None
        known = at != NONE
        if dtypes is None:
            dtypes = coded(numbers, [])
        elif dtypes.known is not None:
            dtypes = FleetCells(dtypes.values, dtypes.known & known, dtypes.texts)
        shapes = [np.frombuffer(each, np.int64).tolist() for each in words]
        return coded(numbers, [shape_text(each) for each in shapes]), dtypes


def _bytes_of(lists: Ragged) -> list[bytes]:
    """The bytes of each list: their comparison takes less time than that of tuples."""
    content, ends = lists.values.tobytes(), (lists.offsets * lists.values.itemsize).tolist()
    return [content[first:end] for first, end in pairwise(ends)]


def shape_text(shape: Sequence[int]) -> str:
    """As in "[32, 128]"."""
    return f"[{', '.join(map(str, shape))}]"


def _rises(outside: Flags, number: Ids, *times: Ids) -> bool:
    """Whether rows are in this order already, as they mostly are: sorting takes much longer."""
    equal = np.ones(max(len(number) - 1, 0), bool)
    keys: tuple[Ids, ...] = (outside.astype(np.int64), number, *times)
    for each in keys:
        if np.any(equal & (each[1:] < each[:-1])):
            return False
        equal &= each[1:] == each[:-1]
    return True
