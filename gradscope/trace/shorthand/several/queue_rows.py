"""Writes the moments of a replay with several queues as short rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gradscope.trace.schema import events
from gradscope.trace.schema.declare import NONE
from gradscope.trace.shorthand.replay import ReplayGraph, ReplayStep, Sent
from gradscope.trace.shorthand.replayed import Left, Moment, PassedOn, Pushed, QueueRun, Sleeps
from gradscope.trace.shorthand.run_events import IN_PLACE, UNKNOWN
from gradscope.trace.shorthand.seen import SeenTask
from gradscope.trace.shorthand.several.queues import QueueTask
from gradscope.trace.shorthand.short_looks import AsForetold

if TYPE_CHECKING:
    from gradscope.trace.shorthand.replayed import ReplayResults

Run = tuple[int, int]  # its task, and its index there


class QueueRows:
    """Rows of backwards that were replayed together."""

    def __init__(
        self,
        tasks: Mapping[int, QueueTask],
        seen: Mapping[int, SeenTask],
        leaves: Mapping[int, int],
        saving: frozenset[int],
        graph: ReplayGraph,
    ) -> None:
        self._tasks, self._seen, self._graph = tasks, seen, graph
        self._leaves, self._saving = leaves, saving
        self._steps: dict[int, list[ReplayStep]] = {}
        self._runs: dict[Run, QueueRun] = {}
        self._rows: list[tuple[int, ...]] = []

    def without_sums(self, moments: Sequence[Moment]) -> int:
        """A task that was not known to have fewer additions than predicted; NONE: there is none."""
        sent: defaultdict[Run, list[Sent]] = defaultdict(list)
        for each in moments:
            if isinstance(each, PassedOn):
                sent[each.task, each.run.place].append(each.sent)
        steps: dict[int, dict[int, ReplayStep]] = {id_: {} for id_ in self._tasks}
        for each in moments:
            if isinstance(each, Left) and each.run is not None:
                place = each.run.place
                self._runs[each.task, place] = each.run
                steps[each.task][place] = ReplayStep(
                    each.node, each.length, each.captured, runs=True,
                    sent=tuple(sent[each.task, place]),
                )  # fmt: skip
        self._steps = {id_: [own[at] for at in sorted(own)] for id_, own in steps.items()}
        for id_, own in self._steps.items():
            if self._seen[id_].sums_known and not self._seen[id_].adds_up(own):
                return id_
        return NONE

    def exchanged(self, task: int) -> tuple[QueueRun, int, int] | None:
        """Two gradients for one input of a node that were passed on in the other order.

        The run that added to the other one, though it ended first, which of its outputs, and when
        the other one was passed on.
        """
        seen = self._seen[task]
        lacking: dict[tuple[int, int], QueueRun] = {}
        surplus: list[tuple[QueueRun, int, tuple[int, int]]] = []
        for place, step in enumerate(self._steps[task]):
            sums = len(seen.sums[place]) - sum(sent.added for sent in step.sent)
            run = self._runs[task, place]
            for sent in step.sent if sums else ():
                if sums < 0 and sent.added:
                    lacking[sent.node, sent.nr] = run
                elif sums > 0 and not sent.added and sent.wanted:
                    surplus.append((run, sent.index, (sent.node, sent.nr)))
        for run, index, end in surplus:
            other = lacking.get(end)
            if other is not None and other.thread != run.thread:
                return run, index, other.over
        return None

    def tell(self, moments: Sequence[Moment], found: ReplayResults) -> None:
        """Add the rows, and what was found out about each task."""
        for id_, each in self._tasks.items():
            steps = self._steps[id_]
            found.as_foretold(id_, each.backward, AsForetold(steps, self._seen[id_], self._leaves))
            found.hooks[id_] = self._nodes_of_hooks(id_)
            found.failed[id_] = NONE
            begin = each.task.begin
            found.rows.counted += [(begin, id_, n, c) for n, c in each.backward.counts.items()]
        how = {
            (id_, place): self._seen[id_].sums_of(place, [s for s in step.sent if s.wanted])
            for id_, steps in self._steps.items()
            for place, step in enumerate(steps)
        }
        for moment in moments:
            match moment:
                case Pushed(t, thread, task, node, queue, length):
                    depth = self._tasks[task].task.depth
                    self._single(events.Push, t, thread, task, node, depth, length, queue)
                case Sleeps(t, thread, wakes):
                    kind = events.Wake if wakes else events.Wait
                    self._single(kind, t, thread, NONE, NONE, thread)
                case PassedOn() if moment.sent.wanted:
                    self._passed_on(moment, next(how[moment.task, moment.run.place]))
                case Left():
                    self._left(moment, found)
        found.rows.single += self._rows

    def _nodes_of_hooks(self, task: int) -> dict[int, int]:
        """The nodes of hooks, by the time of each."""
        seen, steps = self._seen[task], self._steps[task]
        of_thread: defaultdict[int, list[int]] = defaultdict(list)
        for run, thread in enumerate(seen.threads):
            of_thread[self._tasks[task].task.thread if thread == NONE else thread].append(run)
        found: dict[int, int] = {}
        for thread, runs in of_thread.items():
            runs = [run for run in runs if run < len(steps)]  # noqa: PLW2901
            found |= seen.on_thread(thread, runs).find_nodes([steps[run].node for run in runs])
        return found

    def _passed_on(self, moment: PassedOn, how: int) -> None:
        sent, at = moment.sent, (moment.t, moment.thread, moment.task, moment.sent.node)
        self._single(events.Decrement, *at, moment.node, sent.index, sent.left)
        if how == UNKNOWN:
            return
        if how:
            self._single(events.BufferAdded, *at, sent.nr, int(how == IN_PLACE))
        else:
            self._single(events.BufferMade, *at, sent.nr)

    def _left(self, left: Left, found: ReplayResults) -> None:
        """A node leaves its queue, and what happens to it then."""
        where = left.thread, left.task, left.node
        self._single(events.Pop, left.t, *where, left.length, left.queue)
        run = left.run
        for nr in left.captured:
            self._single(events.Capture, left.t if run is None else run.begin, *where, nr)
        if run is None:
            if left.node != NONE:
                self._single(events.Skipped, left.t, *where)
            return
        seen, leaf = self._seen[left.task], self._graph.sequence[left.node] == -1
        self._single(events.NodeBegin, run.begin, *where)
        came = not seen.inside or run.place in seen.took  # else it was None
        if leaf and came and not run.fails:
            at = min(run.ended, seen.after.get(left.node, run.ended + 1) - 1)
            into = self._leaves.get(left.node, NONE)
            self._single(events.Accumulate, at, *where, into, seen.took.get(run.place, NONE))
        self._single(events.NodeEnd, run.over, *where, int(run.fails))
        if run.fails:
            found.failed[left.task] = left.node
        elif left.node in self._saving and not self._tasks[left.task].task.keeps:
            self._single(events.SavedReleased, run.over, *where)

    def _single(
        self, kind: Any, t: int, thread: int, task: int, node: int, a: int = 0, b: int = 0,
        c: int = 0,
    ) -> None:  # fmt: skip
        self._rows.append((t, kind.CODE, thread, task, node, a, b, c, 0))
