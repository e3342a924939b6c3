"""Backwards of the same form: one is replayed, and the rows of the others are copies of its rows.

# Note [RepeatedReplays backwards]
A training loop runs the same backward thousands of times, on graphs that differ only in the ids of
their nodes. What a replay finds depends on nothing else, and where the times of a row come from is
always the same run of the task. So the first backward of a form is replayed with its nodes numbered
from 0 and with times that name their source (`_SPAN` apart), and the rows of every backward of that
form are filled in from these. Backwards with hooks, with `inputs=`, with others inside, or that
failed are replayed one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gradscope.trace.ragged import Array
from gradscope.trace.schema import events
from gradscope.trace.schema.declare import NONE
from gradscope.trace.schema.tables import Order
from gradscope.trace.shorthand.graph_columns import ReachedNodes, ReplayColumns
from gradscope.trace.shorthand.replayed import ForetoldRows
from gradscope.trace.shorthand.seen import SeenTask, SeenTasks, Task
from gradscope.trace.shorthand.short_columns import Ints
from gradscope.trace.shorthand.short_looks import AsForetold

_SPAN = 1 << 20
"""Distance between two times of a replayed form; a row is at most half as far from its source."""
_THREAD, _DEPTH = 1 << 60, 1 << 61
"""Stand for the thread and the depth of a task."""

_NODES = {"single": (4,), "run": (3,), "move": (1,), "counted": (2,)}
"""Columns with a node, in each kind of row."""
_TIMES = {"single": (0,), "run": (0, 1), "move": (0,), "counted": (0,)}
_TASKS = {"single": 3, "run": 2, "counted": 1}


class ReplayedForm(NamedTuple):
    """The result of a replay: the rows, the steps and the order of the task."""

    rows: ForetoldRows
    told: AsForetold
    order: Order


Replay = Callable[[Task, SeenTask, ReplayColumns, ReachedNodes], "ReplayedForm | None"]
"""Replays a task with its nodes numbered from 0; None: the runs have another order."""


@dataclass(slots=True)
class RepeatedForm:
    """All backwards of one form."""

    made: ReplayedForm
    runs: list[int]  # the local number of each node that ran
    rows: dict[str, Ints]
    cells: int
    tasks: list[tuple[int, Task, int, list[int]]] = field(default_factory=list)
    """Place, task, its first run, and the positions of its nodes."""


class RepeatedReplays:
    """Replays backwards, each form once."""

    def __init__(self, seen: SeenTasks, columns: ReplayColumns, replay: Replay) -> None:
        self._seen, self._columns, self._replay = seen, columns, replay
        self._forms: dict[object, RepeatedForm | None] = {}
        self.cells = 0
        """Approximate number of cells that the rows will take."""

    def takes(self, place: int, task: Task, reached: ReachedNodes) -> RepeatedForm | None:
        """The form of a task if its rows are those of a form; `write` then writes them."""
        form = self._form_of(task, reached)
        if form is None:
            return None
        numbers = self._seen.numbers(task.id)
        sequence, at = self._columns.sequence, reached.at
        if numbers != [sequence[at[local]] for local in form.runs]:
            return None
        form.tasks.append((place, task, self._seen.runs(task.id).start, at))
        self.cells += form.cells
        return form

    def _form_of(self, task: Task, reached: ReachedNodes) -> RepeatedForm | None:
        plain = not (task.inputs or task.failed or task.waiting or task.others_inside)
        runs = self._seen.runs(task.id)
        if (
            not plain
            or self._seen.has_hooks(task.id)
            or reached.form[-1]
            or runs.start == runs.stop
        ):
            return None
        key = reached.form, task.keeps, task.accumulates, self._seen.sums(task.id)
        if key not in self._forms:
            self._forms[key] = self._made(task, reached)
        return self._forms[key]

    def _made(self, task: Task, reached: ReachedNodes) -> RepeatedForm | None:
        seen = self._seen[task.id]
        local = {position: number for number, position in enumerate(reached.at)}
        numbers = dict(zip((self._columns.sequence[at] for at in reached.at), local.values(),
                           strict=True))  # fmt: skip
        if len(seen.rows) >= _SPAN or not {each for *_, each in seen.rows} <= numbers.keys():
            return None
        seen.rows = [((2 * run + 1) * _SPAN, (2 * run + 2) * _SPAN, sequence)
                     for run, (_, _, sequence) in enumerate(seen.rows)]  # fmt: skip
        own = task._replace(id=0, root=0, thread=_THREAD, depth=_DEPTH, begin=0)
        made = self._replay(own, seen, self._columns, reached)
        if made is None:
            return None
        rows = {name: np.array(found, np.int64) for name, found in made.rows.lists().items()}
        for name, found in rows.items():
            for column in _TIMES[name] if len(found) else ():
                off = (found[:, column] + _SPAN // 2) % _SPAN - _SPAN // 2
                if (np.abs(off) > _SPAN // 4).any():
                    return None
        return RepeatedForm(made, [step.node for step in made.told.steps], rows, made.rows.cells())

    def told(self, form: RepeatedForm, task: Task, reached: ReachedNodes) -> AsForetold:
        """The steps of a task, with the ids of its nodes."""
        ids = self._columns.ids[reached.at].tolist()
        steps = [
            step._replace(
                node=ids[step.node],
                sent=tuple(
                    type(sent)(sent.index, ids[sent.node], sent.nr, sent.left, sent.wanted,
                               sent.added, sent.length)
                    if sent.node != NONE else sent
                    for sent in step.sent
                ),
            )
            for step in form.made.told.steps
        ]  # fmt: skip
        seen = self._seen[task.id]
        seen.sums_known = form.made.told.seen.sums_known
        return AsForetold(steps, seen, self._columns.leaves(reached.at))

    def write(self, rows: ForetoldRows) -> None:
        """Add the rows of all tasks that were taken."""
        for form in filter(None, self._forms.values()):
            if form.tasks:
                self._write(form, rows)

    def _write(self, form: RepeatedForm, rows: ForetoldRows) -> None:
        places = np.array([place for place, *_ in form.tasks])
        tasks = [task for _, task, *_ in form.tasks]
        id, thread, depth, begin = (
            np.array([getattr(task, name) for task in tasks])[:, None]
            for name in ("id", "thread", "depth", "begin")
        )
        positions = np.array([at for *_, at in form.tasks])
        nodes, leaves = self._columns.ids[positions], self._columns.leaf_of[positions]
        first = np.array([first for _, _, first, _ in form.tasks])[:, None]
        run = first + np.arange(len(form.runs))
        times = np.empty((len(tasks), 2 * len(form.runs) + 1), np.int64)
        times[:, :1], times[:, 1::2] = begin, self._seen.begin[run]
        times[:, 2::2] = self._seen.ended[run]
        for name, found in form.rows.items():
            if not len(found):
                continue
            made = np.repeat(found[None], len(tasks), axis=0)
            for column in _TIMES[name]:
                source = (found[:, column] + _SPAN // 2) // _SPAN
                made[:, :, column] = times[:, source] + (found[:, column] - source * _SPAN)
            for column in _NODES[name]:
                made[:, :, column] = _named(nodes, found[:, column])
            if name in _TASKS:
                made[:, :, _TASKS[name]] = id
            if name == "single":
                _fill_in(made, found, (thread, depth, begin, leaves))
            rows.add(name, np.repeat(places, len(found)), made.reshape(-1, found.shape[1]))


def _named(nodes: Ints, local: Ints) -> Ints:
    """The id of each node in each task; NONE stays NONE."""
    made: Ints = np.where(local == NONE, NONE, nodes[:, local])
    return made


def _fill_in(made: Ints, found: Ints, of_tasks: Sequence[Array]) -> None:
    """The other cells of single events that differ between tasks."""
    thread, depth, begin, leaves = of_tasks
    codes = found[:, 1]
    into_leaf = np.flatnonzero((codes == events.Accumulate.CODE) & (found[:, 5] != NONE))
    if len(into_leaf):
        made[:, into_leaf, 5] = leaves[:, found[into_leaf, 5]]
    for column in (2, 5, 6, 7):
        for marker, values in ((_THREAD, thread), (_DEPTH, depth)):
            where = np.flatnonzero(found[:, column] == marker)
            made[:, where, column] = values
    # The push of the root is before its run, but after the dependencies were counted.
    pushed = np.flatnonzero(codes == events.Push.CODE)
    made[:, pushed, 0] = np.maximum(made[:, pushed, 0], begin + 1)
