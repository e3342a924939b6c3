"""Runs of nodes in an engine observed from outside, with the events inferred around them.

# Note [Inferred events]
When an engine is observed from outside, it is known which nodes ran, in what order, and when. What
it counted, pushed and popped is inferred by a replay of the graph (Note [Replay]). If the recorded
order is the predicted one, the events of the replay are written, at the times of the runs around
them; if it is not, none are written, and the task is marked. If fewer gradients were added than
predicted, some were None. It is not known which, so the events of buffers are not written.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.errors import UnreadableTraceError
from gradscope.trace.schema import events
from gradscope.trace.schema.declare import NONE
from gradscope.trace.schema.tables import Order
from gradscope.trace.shorthand.graph_columns import ReachedNodes, ReplayColumns, integers
from gradscope.trace.shorthand.repeated import RepeatedReplays, ReplayedForm
from gradscope.trace.shorthand.replay import NOBODY, ReplayBackward, ReplayGraph, ReplayStep
from gradscope.trace.shorthand.replayed import SINGLE, ForetoldRows, ReplayResults, put
from gradscope.trace.shorthand.seen import HOOKS, SeenTask, SeenTasks, Task, tasks_of
from gradscope.trace.shorthand.several.several_threads import SeveralThreads
from gradscope.trace.shorthand.short_looks import AsForetold
from gradscope.trace.shorthand.tables import UNDER_WAY

__all__ = ["SINGLE", "add_replayed"]

if TYPE_CHECKING:
    from gradscope.trace.table import Block


class ForetoldTask:
    """Writes the predicted events of one task as short rows."""

    def __init__(
        self,
        rows: ForetoldRows,
        task: Task,
        seen: SeenTask,
        saving: frozenset[int],
        graph: ReplayGraph,
        leaves: Mapping[int, int],
    ) -> None:
        self._rows, self._task, self._seen = rows, task, seen
        self._saving, self._graph, self._leaves = saving, graph, leaves
        self._inside = sorted([*task.others_inside, *seen.hooks_within])
        self.failed = NONE  # the node that was running when an exception ended the task
        self.lengths: list[tuple[int, int]] = []
        """Length of the queue after each pop, and the time of the pop."""

    def tell(self, backward: ReplayBackward, steps: list[ReplayStep]) -> None:
        """All events of the task, up to the last run that was recorded."""
        task, seen = self._task, self._seen
        self._rows.counted += [(task.begin, task.id, n, c) for n, c in backward.counts.items()]
        runs = iter(enumerate(seen.rows))
        last, left = task.begin + 1, len(seen.rows)
        self._single(
            events.Push,
            self._begins(steps[0], seen.rows[:1]),
            task.root,
            task.depth,
            1 + task.waiting,
            task.thread,
        )
        for place, step in enumerate(steps):
            if not step.runs:
                if self._fails_here(steps[place:], last, left):
                    self._popped_and_failed(step, last)
                    break
                popped = self._seen.first_hook.get(step.node, last + 2) - 1
                last = max(popped, self._seen.hooks_over.get(step.node, popped))
                self._popped(step, popped, last)
                self._single(events.Skipped, last, step.node)
                continue
            if not left:
                self._popped_and_failed(step, last)
                break
            left -= 1
            run, (begin, ended, _) = next(runs)
            self.lengths.append(
                (min(begin, self._seen.first_hook.get(step.node, begin)), step.length)
            )
            last_one = task.failed not in (0, UNDER_WAY) and not left
            raised = last_one and not self._fails_later(steps[place + 1 :], ended)
            self._run(step, run, begin, ended, failed=raised)
            if raised:
                break
            last = max(ended, self._seen.after_run.get(step.node, ended))

    def _fails_later(self, steps: Sequence[ReplayStep], ended: int) -> bool:
        """Whether a hook of the next nodes, up to one that ran, was called before the error."""
        for step in steps:
            if self._seen.first_hook.get(step.node, ended) > ended:
                return True
            if step.runs:
                break
        return False

    def _fails_here(self, steps: Sequence[ReplayStep], last: int, left: int) -> bool:
        """Whether a hook of the first of these nodes raised; the node did not run then."""
        if (
            left
            or self._task.failed in (0, UNDER_WAY)
            or steps[0].node not in self._seen.first_hook
        ):
            return False
        return not self._fails_later(steps[1:], last)

    def _popped_and_failed(self, step: ReplayStep, last: int) -> None:
        """The node whose hook raised before it ran, or that is running when the trace is read."""
        if self._task.failed == UNDER_WAY:
            at = self._seen.first_hook.get(step.node, last + 2) - 1
            self._popped(step, at, at + 1)
            self._single(events.NodeBegin, at + 1, step.node)
            return
        hook = self._seen.first_hook.get(step.node)
        if hook is not None and hook > last:
            self._single(events.Pop, hook - 1, step.node, step.length, self._task.thread)
            self.failed = step.node

    def _begins(self, step: ReplayStep, rows: list[tuple[int, int, int]]) -> int:
        counted = self._task.begin + 1
        begin = rows[0][0] if rows and step.runs else counted
        return max(counted, min(begin, self._seen.first_hook.get(step.node, begin) - 1))

    def _run(self, step: ReplayStep, run: int, begin: int, ended: int, *, failed: bool) -> None:
        task, node = self._task, step.node
        leaf = self._graph.sequence[node] == -1
        releases = node in self._saving and not task.keeps
        inside = bisect_left(self._inside, begin) < bisect_left(self._inside, ended)
        over = max(ended, self._seen.after_run.get(node, ended))
        hooked = node in self._seen.first_hook or over > ended
        if not (leaf or failed or inside or step.captured or hooked):
            self._rows.run.append((begin, ended, task.id, node, step.length, int(releases)))
        else:
            popped = min(begin, self._seen.first_hook.get(node, begin) - 1)
            self._popped(step, popped, begin)
            self._single(events.NodeBegin, begin, node)
            came = not self._seen.inside or run in self._seen.took  # else it was None
            if leaf and came and not failed:
                at = min(ended, self._seen.after.get(node, ended + 1) - 1)
                how = self._seen.took.get(run, NONE)
                self._single(events.Accumulate, at, node, self._leaves.get(node, NONE), how)
            self._single(events.NodeEnd, over, node, int(failed))
            if releases and not failed:
                self._single(events.SavedReleased, over, node)
            if failed:
                self.failed = node
                return
            self._rows.run.append((begin, over, task.id, node, step.length, -1))
        sent_on = [sent for sent in step.sent if sent.wanted]
        self._rows.move += [
            (begin, sent.node, sent.index, sent.nr, how, sent.left, sent.length)
            for sent, how in zip(sent_on, self._seen.sums_of(run, sent_on), strict=True)
        ]

    def _popped(self, step: ReplayStep, t: int, captured: int) -> None:
        """A node leaves the queue; requested gradients are captured after its hooks."""
        self._single(events.Pop, t, step.node, step.length, self._task.thread)
        for nr in step.captured:
            self._single(events.Capture, captured, step.node, nr)

    def _single(self, kind: Any, t: int, node: int, a: int = 0, b: int = 0, c: int = 0) -> None:
        task = self._task
        self._rows.single.append((t, kind.CODE, task.thread, task.id, node, a, b, c, 0))


def add_replayed(
    plain: Sequence[Block],
    short: dict[str, list[Block]],
    make: type[Block],
    room: int | None,
    told: dict[int, Callable[[], AsForetold]] | None,
) -> Block | None:
    """Add the inferred events of recorded runs to the short rows. Returns the order of each task.

    Tasks whose runs were in the predicted order are put into `told`.
    """
    seen = SeenTasks(short)
    if not seen:
        return None
    tasks = tasks_of(plain, short)
    columns = ReplayColumns(plain, integers(short["short.saved"], "node"))
    found = ReplayResults(told=told)
    repeated = RepeatedReplays(seen, columns, _of_form)
    lengths: dict[int, list[tuple[int, int]]] = {}
    try:
        SeveralThreads(tasks, seen, columns, plain).replay(found)
        found.rows.put_away(-1)
        for place, (id_, task) in enumerate(tasks.items()):
            if id_ not in found.orders:
                around = [n for at, n in lengths.get(task.parent, ()) if at <= task.begin]
                task = task._replace(waiting=around[-1] if around else 0)  # noqa: PLW2901
                if not _is_repeated(place, task, (seen, columns, repeated), found):
                    lengths[id_] = _one_thread(task, seen.get(id_), columns, found)
                    found.rows.put_away(place)
            if room is not None and found.rows.cells() + repeated.cells > room:
                raise UnreadableTraceError("its runs stand for more cells than its lines allow")
    except KeyError as error:
        raise UnreadableTraceError(f"node {error} is referred to but has no row") from None
    repeated.write(found.rows)
    short["short.event"] = [
        _with_nodes(block, found.failed, found.hooks, make) for block in short["short.event"]
    ]
    put(found.rows, short, make)
    return found.amendments(make)


def _is_repeated(
    place: int,
    task: Task,
    trace: tuple[SeenTasks, ReplayColumns, RepeatedReplays],
    found: ReplayResults,
) -> bool:
    """Whether the rows of a task are those of a form: see Note [RepeatedReplays backwards]."""
    seen, columns, repeated = trace
    root = columns.position(task.root)
    if root == NONE or task.id not in seen:
        return False
    reached = columns.reached(root)
    form = repeated.takes(place, task, reached)
    if form is None:
        return False
    found.orders[task.id] = form.made.order
    if found.told is not None:
        found.told[task.id] = partial(repeated.told, form, task, reached)
    return True


def _of_form(
    task: Task, seen: SeenTask, columns: ReplayColumns, reached: ReachedNodes
) -> ReplayedForm | None:
    """Replay a task with its nodes numbered from 0."""
    names = {position: number for number, position in enumerate(reached.at)}
    graph, leaves = columns.graph(reached.at, names), columns.leaves(reached.at, names)
    found = ReplayResults(told={})
    assert found.told is not None
    _ = _replayed(task, seen, (graph, leaves, columns.saving(reached.at, names)), found)
    told = found.told.get(task.id)
    return told and ReplayedForm(found.rows, told(), found.orders[task.id])


def _one_thread(
    task: Task, seen: SeenTask | None, columns: ReplayColumns, found: ReplayResults
) -> list[tuple[int, int]]:
    """Replay a task whose nodes one thread ran. Returns the lengths of its queue, with times."""
    found.orders[task.id] = Order.NOT_SEEN if seen is None else Order.OTHERWISE
    root = columns.position(task.root)
    if seen is None or root == NONE:
        return []
    asked = [columns.position(node) for node, _ in task.inputs if node != NOBODY]
    at = dict.fromkeys([*columns.reached(root).at, *(each for each in asked if each != NONE)])
    nodes = columns.graph(at), columns.leaves(at), columns.saving(at)
    return _replayed(task, seen, nodes, found)


def _replayed(
    task: Task,
    seen: SeenTask,
    nodes: tuple[ReplayGraph, Mapping[int, int], frozenset[int]],
    found: ReplayResults,
) -> list[tuple[int, int]]:
    graph, leaves, saving = nodes
    backward = ReplayBackward(
        graph, task.root, task.inputs, accumulates=task.accumulates, waiting=task.waiting
    )
    steps = backward.steps()
    if not _agree(steps, seen, graph, failed=task.failed):
        found.otherwise[task.id] = _first_difference(steps, seen, graph)
        return []
    ran = [step for step in steps if step.runs]
    seen.sums_known = seen.adds_up(ran)
    found.as_foretold(task.id, backward, AsForetold(ran, seen, leaves))
    found.hooks[task.id] = seen.find_nodes([step.node for step in ran])
    teller = ForetoldTask(found.rows, task, seen, saving, graph, leaves)
    teller.tell(backward, steps)
    found.failed[task.id] = teller.failed
    return teller.lengths


def _with_nodes(
    block: Block,
    failed: Mapping[int, int],
    hooks: Mapping[int, Mapping[int, int]],
    make: type[Block],
) -> Block:
    """Single events, with errors assigned to the running node, and hooks to their nodes."""
    code, task, node = (np.asarray(block.data[name]) for name in ("code", "task", "node"))
    t = np.asarray(block.data["t"])
    unknown = np.isin(code, [events.Error.CODE, *HOOKS]) & (node == NONE)
    if not unknown.any():
        return block
    node = node.copy()
    for place in np.flatnonzero(unknown).tolist():
        of = int(task[place])
        if code[place] == events.Error.CODE:
            node[place] = failed.get(of, NONE)
        else:
            node[place] = hooks.get(of, {}).get(int(t[place]), NONE)
    return make(block.table, block.rows, {**block.data, "node": node})


def _agree(steps: Sequence[ReplayStep], seen: SeenTask, graph: ReplayGraph, *, failed: int) -> bool:
    """Whether the recorded runs are the predicted ones; a failed task ran fewer."""
    foretold = [graph.sequence[step.node] for step in steps if step.runs]
    ran = [sequence for _, _, sequence in seen.rows]
    return ran == (foretold[: len(ran)] if failed else foretold)


def _first_difference(steps: Sequence[ReplayStep], seen: SeenTask, graph: ReplayGraph) -> list[int]:
    """The node that ran where another was predicted; NONE: a leaf, further nodes, or none."""
    foretold = [step.node for step in steps if step.runs]
    ran = [sequence for _, _, sequence in seen.rows]
    for node, sequence in zip(foretold, ran, strict=False):
        if graph.sequence[node] != sequence:
            others = [each for each in foretold if graph.sequence[each] == sequence != -1]
            return [others[0] if others else NONE, node]
    return [NONE, foretold[len(ran)] if len(ran) < len(foretold) else NONE]
