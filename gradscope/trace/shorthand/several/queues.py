"""Replays backwards whose nodes ran on several threads, each with its own queue.

# Note [Several queues]
PyTorch has a ready queue for each device, and one for each thread that calls a backward. Which node
leaves a queue follows from what is in it (Note [Replay]). When another thread pushes to it follows
from nothing, but it is known when nodes ran: a node leaves its queue after the last event on its
thread and before its own run; the gradients of a run are passed on after its end and before the
next event on its thread. An order is the predicted one if it is possible with times in these
periods. Backwards that run at the same time share queues, so they are replayed together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from gradscope.trace.schema.declare import NONE
from gradscope.trace.shorthand.replay import Ready, ReplayBackward, Sent
from gradscope.trace.shorthand.replayed import Left, Moment, PassedOn, Pushed, QueueRun, Sleeps
from gradscope.trace.shorthand.seen import Task


class QueueTask(NamedTuple):
    """A backward, and the number of the queue for each of its nodes."""

    task: Task
    backward: ReplayBackward
    queue_of: Callable[[int], int]


class OtherOrderError(Exception):
    """A node ran before another one that was certainly ahead in the queue.

    `certain`: no other times would explain it.
    """

    def __init__(self, task: int, sequence: int, foretold: int, *, certain: bool = True) -> None:
        super().__init__(task)
        self.task, self.sequence, self.foretold = task, sequence, foretold
        self.certain = certain


BEGIN, PASS_ON, POP = range(3)
CALL, RUN = range(2)


class SeveralQueues:
    """Backwards that share queues, with all their runs in the order in which they began.

    `asleep`: threads that wait before, and after `moments` those that then wait. `engine`: the
    threads of devices.
    """

    def __init__(
        self,
        tasks: Mapping[int, QueueTask],
        runs: Sequence[QueueRun],
        asleep: set[int],
        engine: set[int],
    ) -> None:
        self._tasks, self._runs, self._engine = tasks, runs, engine
        self._before = asleep
        self.asleep = asleep
        self._popped = [run.popped for run in runs]
        self._passed: dict[tuple[int, int], int] = {}  # by run and output: not before this time
        self._changed = False

    def moments(self) -> list[Moment]:
        """Everything that happened, in order."""
        for _ in range(2 * len(self._runs) + 1):
            try:
                play = _Play(
                    self._tasks, self._runs, {*self._before}, self._engine, self._popped,
                    self._passed,
                )  # fmt: skip
                found = [*play.all()]
            except _Conflict as conflict:
                self._retime(conflict)
            else:
                self.asleep = play.asleep
                return found
        first = self._runs[0]
        raise OtherOrderError(first.task, first.sequence, NONE, certain=False)

    def delay(self, run: QueueRun, index: int, until: int) -> bool:
        """Let a run pass a gradient on after this time, if that is new and possible."""
        at = self._runs.index(run), index
        if run.until <= until or self._passed.get(at, NONE) > until:
            return False
        self._passed[at] = until + 1
        self._changed = True
        return True

    def _retime(self, conflict: _Conflict) -> None:
        """Let a node leave its queue before another one enters it, if that is possible."""
        run = self._runs[conflict.run]
        error = OtherOrderError(
            run.task, run.sequence, conflict.foretold, certain=not self._changed
        )
        earliest = max(run.since, conflict.own.t)
        ahead = [(self._until(by, run), by) for by in conflict.ahead]
        until, by = max(ahead, key=lambda each: each[0])
        self._changed = True
        if until > self._popped[conflict.run]:
            self._passed[by.run, by.output] = self._popped[conflict.run] + 1
        elif until > earliest + 1:
            self._popped[conflict.run] = earliest + 1
            self._passed[by.run, by.output] = max(earliest + 2, by.t)
        else:
            raise error

    def _until(self, by: _Pusher, run: QueueRun) -> int:
        """The latest time of a push. What this run's thread pushed was there."""
        if by.run == NONE:
            caller = self._tasks[by.output].task.thread
            until = min((r.popped for r in self._runs if r.task == by.output), default=NONE)
        else:
            caller, until = self._runs[by.run].thread, self._runs[by.run].until
        return NONE if caller == run.thread else until


class _Pusher(NamedTuple):
    """What pushed a node: a run, with which output, and when.

    Or a call, before the first run: NONE, and its task.
    """

    run: int
    output: int
    t: int


class _Conflict(Exception):  # noqa: N818 -- it is resolved
    """A run needs a node while another one is ahead.

    `own`: what pushed the node; `ahead`: what the other one waited for.
    """

    def __init__(self, run: int, own: _Pusher, ahead: list[_Pusher], foretold: int) -> None:
        super().__init__(run)
        self.run, self.own, self.ahead, self.foretold = run, own, ahead, foretold


Item = tuple[int, int]  # a task and a node


class _Entry(Ready):
    """An entry of a queue."""

    __slots__ = ("item",)

    def __init__(self, key: tuple[int, int], item: Item) -> None:
        super().__init__(key, item[1])
        self.item = item


class _Play:
    """One replay, with given times."""

    def __init__(
        self,
        tasks: Mapping[int, QueueTask],
        runs: Sequence[QueueRun],
        asleep: set[int],
        engine: set[int],
        popped: Sequence[int],
        passed: Mapping[tuple[int, int], int],
    ) -> None:
        self._tasks, self._runs, self.asleep = tasks, runs, asleep
        self._queues: defaultdict[int, list[_Entry]] = defaultdict(list)
        self._pushers: defaultdict[Item, list[_Pusher]] = defaultdict(list)  # the last one pushed
        self._passed = passed
        self._sending: dict[int, tuple[list[int], Iterator[Sent]]] = {}  # by run: what is left
        self._left = {id_: dict(each.backward.counts) for id_, each in tasks.items()}
        self._kept: dict[int, dict[int, set[int]]] = {id_: {} for id_ in tasks}
        self._outstanding = dict.fromkeys(tasks, 0)
        self._inside: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        """By thread: the tasks that it called and the runs that are active, the innermost last."""
        self._node_of: dict[int, int] = {}  # by run
        self._engine = engine
        self._numbers = engine | {each.task.thread for each in tasks.values()}
        self._pending: list[tuple[int, int, int]] = [
            *(
                (max(each.task.begin + 1, passed.get((NONE, id_), 0)), BEGIN, id_)
                for id_, each in tasks.items()
            ),
            *((t, POP, n) for n, t in enumerate(popped)),
            *((run.over, PASS_ON, n) for n, run in enumerate(runs)),
        ]
        heapify(self._pending)

    def all(self) -> Iterator[Moment]:
        while self._pending:
            t, kind, n = heappop(self._pending)
            if kind == BEGIN:
                yield from self._begins(t, n)
            elif kind == POP:
                yield from self._leaves(t, n)
            elif n in self._node_of:
                yield from self._passes_on(t, n)
        yield from self._rest()

    def _begins(self, t: int, task: int) -> Iterator[Moment]:
        thread = self._tasks[task].task.thread
        self._inside[thread].append((CALL, task))
        root = task, self._tasks[task].task.root
        self._pushers[root].append(_Pusher(NONE, task, t))
        yield from self._push(t, thread, root)
        yield from self._settles(t, thread)

    def _push(self, t: int, thread: int, item: Item) -> Iterator[Moment]:
        task, node = item
        of = self._tasks[task]
        queue = of.queue_of(node)
        heappush(self._queues[queue], _Entry(of.backward.key(node), item))
        self._outstanding[task] += 1
        yield Pushed(t, thread, task, node, queue, len(self._queues[queue]))
        if queue != thread:
            yield from self._wakes(t, queue)
            yield from self._settles(t, queue)

    def _wakes(self, t: int, thread: int) -> Iterator[Moment]:
        if thread in self.asleep:
            self.asleep.remove(thread)
            yield Sleeps(t, thread, wakes=True)

    def _settles(self, t: int, thread: int) -> Iterator[Moment]:
        """A thread in the engine's loop takes nodes that do not run, and sleeps without work."""
        inside = self._inside[thread]
        if not (inside[-1][0] == CALL if inside else thread in self._engine):
            return
        yield from self._skips(t, thread, thread)
        if not self._queues[thread] and thread in self._numbers and thread not in self.asleep:
            self.asleep.add(thread)
            yield Sleeps(t, thread, wakes=False)

    def _leaves(self, t: int, n: int) -> Iterator[Moment]:
        run = self._runs[n]
        of = self._tasks[run.task]
        queue = run.thread if run.thread in self._numbers else of.task.thread
        entries = self._queues[queue]
        yield from self._skips(t, run.thread, queue)
        found = self._found(n, entries)
        if found is None:
            return
        if found is entries[0]:
            heappop(entries)
        else:
            entries.remove(found)
            heapify(entries)
        self._node_of[n] = found.node
        self._inside[run.thread].append((RUN, n))
        captured = of.backward.captures.get(found.node, ())
        yield from self._wakes(t, run.thread)
        yield Left(t, run.thread, run.task, found.node, queue, len(entries), captured, run)

    def _skips(self, t: int, thread: int, queue: int) -> Iterator[Moment]:
        """Nodes that are ahead and do not run leave the queue."""
        entries = self._queues[queue]
        while entries:
            task, node = entries[0].item
            backward = self._tasks[task].backward
            if backward.runs(node):
                return
            heappop(entries)
            captured = backward.captures.get(node, ())
            yield Left(t, thread, task, node, queue, len(entries), captured)
            yield from self._finishes(t, thread, task)

    def _found(self, n: int, entries: list[_Entry]) -> _Entry | None:
        """The entry of a run: the first one in the queue."""
        run = self._runs[n]
        sequence = self._tasks[run.task].backward.sequence_nr
        same = [e for e in entries if e.item[0] == run.task and sequence(e.node) == run.sequence]
        if not same:
            if self._tasks[run.task].task.failed:
                return None  # its queue was discarded
            raise OtherOrderError(run.task, run.sequence, entries[0].node if entries else NONE)
        found = same[0] if same[0] is entries[0] else min(same, key=lambda each: each.key)
        for each in entries:
            if each.key < found.key and self._tasks[each.item[0]].backward.runs(each.node):
                raise _Conflict(
                    n, self._pushers[found.item][-1], self._pushers[each.item], each.node
                )
        return found

    def _passes_on(self, t: int, n: int) -> Iterator[Moment]:
        """The gradients of a run are passed on, one after the other, as far as it is time."""
        run, node = self._runs[n], self._node_of[n]
        of = self._tasks[run.task]
        if run.fails:
            self._inside[run.thread].remove((RUN, n))
            yield from self._fails(t, run)
            return
        if n not in self._sending:
            gradients = of.backward.sent_by(node, self._left[run.task], self._kept[run.task])
            self._sending[n] = of.backward.ends(node)[::-1], gradients
            self._inside[run.thread].remove((RUN, n))
        left, gradients = self._sending[n]
        while left:
            later = self._passed.get((n, left[-1]), t)
            if later > t:
                heappush(self._pending, (later, PASS_ON, n))
                return
            left.pop()
            sent = next(gradients)
            queue = of.queue_of(sent.node)
            yield PassedOn(t, run.thread, run.task, node, sent, queue, run)
            self._pushers[run.task, sent.node].append(_Pusher(n, sent.index, t))
            if sent.wanted and not sent.left:
                yield from self._push(t, run.thread, (run.task, sent.node))
        yield from self._finishes(t, run.thread, run.task)
        yield from self._settles(t, run.thread)

    def _finishes(self, t: int, thread: int, task: int) -> Iterator[Moment]:
        """A node of a task is done; after the last one, the thread that called is woken."""
        self._outstanding[task] -= 1
        if not self._outstanding[task]:
            yield from self._over(t, thread, task)

    def _over(self, t: int, thread: int, task: int) -> Iterator[Moment]:
        owner = self._tasks[task].task.thread
        if (CALL, task) in self._inside[owner]:
            self._inside[owner].remove((CALL, task))
            if thread != owner and thread in self._numbers:
                length = len(self._queues[owner])
                yield Pushed(t, thread, task, NONE, owner, length + 1)
                yield from self._wakes(t, owner)
                yield Left(t, owner, task, NONE, owner, length)

    def _fails(self, t: int, run: QueueRun) -> Iterator[Moment]:
        """A run raised: what its task has in queues is discarded."""
        for entries in self._queues.values():
            entries[:] = [each for each in entries if each.item[0] != run.task]
            heapify(entries)
        yield from self._over(t, run.thread, run.task)
        yield from self._settles(t, run.thread)

    def _rest(self) -> Iterator[Moment]:
        """After the last run, only nodes that do not run are left."""
        last = max((run.over for run in self._runs), default=0)
        for queue, entries in list(self._queues.items()):
            yield from self._skips(last, queue, queue)
            for task, node in (each.item for each in entries):
                if not self._tasks[task].task.failed:
                    raise OtherOrderError(task, NONE, node)
