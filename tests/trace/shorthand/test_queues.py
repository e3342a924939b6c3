"""A replay of several threads: each queue follows the rules, and times explain what is between."""

from __future__ import annotations

from collections import defaultdict

import pytest

import gradscope.runtime as ours
from gradscope.record.recorder import record
from gradscope.trace.schema import (
    BufferAdded,
    BufferMade,
    Decrement,
    Device,
    Edge,
    GraphTask,
    Node,
    NodeBegin,
    NodeEnd,
    Order,
    Pop,
    Push,
    Tensor,
    Thread,
)
from gradscope.trace.schema.declare import NONE
from gradscope.trace.shorthand import tables
from gradscope.trace.shorthand.replay import ReplayBackward, ReplayGraph
from gradscope.trace.shorthand.replayed import Left, Moment, Pushed, QueueRun, Sleeps
from gradscope.trace.shorthand.seen import SeenTask, Task
from gradscope.trace.shorthand.several.queues import OtherOrderError, QueueTask, SeveralQueues
from gradscope.trace.shorthand.several.several_threads import runs_of
from gradscope.trace.spec.checked_trace import CheckedTrace
from gradscope.trace.spec.foretold import _graph
from gradscope.trace.trace import Trace
from gradscope.trace.writer import MemoryWriter

CALLER, DEVICE = 0, 1
ROOT, LOW, HIGH, FIRST, SECOND = range(5)


def task_of(root: int, begin: int = 0) -> Task:
    return Task(1, root, (), CALLER, 0, begin, False, True, 0, NONE, 0, ())


def replayed(
    graph: ReplayGraph, on_device: set[int], rows: list[tuple[int, int, int, int]]
) -> tuple[list[Moment], set[int]]:
    """The moments of a backward from ROOT, and the threads that sleep after it.

    A row: begin, end, sequence number and thread of a run.
    """
    backward = ReplayBackward(graph, ROOT)
    tasks = {
        1: QueueTask(task_of(ROOT), backward, lambda node: DEVICE if node in on_device else CALLER)
    }
    seen = SeenTask([row[:3] for row in rows], [row[3] for row in rows])
    replay = SeveralQueues(tasks, runs_of(tasks, {1: seen}), set(), {DEVICE})
    return replay.moments(), replay.asleep


def left(moments: list[Moment], queue: int) -> list[int]:
    return [each.node for each in moments if isinstance(each, Left) and each.queue == queue]


FORK = ReplayGraph(
    edges={ROOT: [(LOW, 0), (HIGH, 0)], LOW: [], HIGH: []},
    sequence={ROOT: 9, LOW: 3, HIGH: 5},
    topological={ROOT: 1, LOW: 0, HIGH: 0},
)
"""The root leads to two nodes; HIGH was created later, so it leaves a queue before LOW."""


def test_nodes_leave_the_queue_of_their_device() -> None:
    rows = [(10, 20, 9, CALLER), (30, 40, 5, DEVICE), (50, 60, 3, DEVICE)]
    moments, asleep = replayed(FORK, {LOW, HIGH}, rows)

    assert left(moments, CALLER) == [ROOT, NONE]  # an empty task wakes the caller
    assert left(moments, DEVICE) == [HIGH, LOW]
    assert asleep == {DEVICE}
    slept = [(each.thread, each.wakes) for each in moments if isinstance(each, Sleeps)]
    assert slept == [(CALLER, False), (CALLER, True), (DEVICE, False)]


def test_a_node_may_run_before_the_next_one_is_pushed_by_another_thread() -> None:
    rows = [(10, 20, 9, CALLER), (30, 40, 3, DEVICE), (50, 60, 5, DEVICE)]
    moments, _ = replayed(FORK, {LOW, HIGH}, rows)

    assert left(moments, DEVICE) == [LOW, HIGH]
    kinds = [type(each) for each in moments if getattr(each, "node", NONE) in {LOW, HIGH}
             and isinstance(each, (Pushed, Left))]  # fmt: skip
    assert kinds == [Pushed, Left, Pushed, Left]


def test_what_the_thread_itself_has_pushed_is_certainly_there() -> None:
    rows = [(10, 20, 9, DEVICE), (30, 40, 3, DEVICE), (50, 60, 5, DEVICE)]
    with pytest.raises(OtherOrderError) as raised:
        replayed(FORK, {ROOT, LOW, HIGH}, rows)
    assert (raised.value.sequence, raised.value.foretold, raised.value.certain) == (3, HIGH, True)


def test_what_another_thread_pushed_before_its_next_run_is_certainly_there() -> None:
    graph = ReplayGraph(
        edges={ROOT: [(LOW, 0), (HIGH, 0), (FIRST, 0), (SECOND, 0)],
               LOW: [], HIGH: [], FIRST: [], SECOND: []},
        sequence={ROOT: 9, LOW: 3, HIGH: 5, FIRST: 8, SECOND: 7},
        topological={ROOT: 1, LOW: 0, HIGH: 0, FIRST: 0, SECOND: 0},
    )  # fmt: skip
    here = [(10, 20, 9, CALLER), (30, 40, 7, CALLER)]  # SECOND begins: all four were pushed
    on_device = {LOW, HIGH, FIRST}
    fine = [*here, (25, 50, 8, DEVICE), (60, 70, 5, DEVICE), (80, 90, 3, DEVICE)]
    other = [*here, (25, 50, 8, DEVICE), (60, 70, 3, DEVICE), (80, 90, 5, DEVICE)]

    assert left(replayed(graph, on_device, sorted(fine))[0], DEVICE) == [FIRST, HIGH, LOW]
    with pytest.raises(OtherOrderError) as raised:
        replayed(graph, on_device, sorted(other))
    assert (raised.value.sequence, raised.value.foretold) == (3, HIGH)


def test_a_node_that_never_ran_is_another_order() -> None:
    with pytest.raises(OtherOrderError) as raised:
        replayed(FORK, {LOW}, [(10, 20, 9, CALLER), (30, 40, 3, DEVICE)])
    assert (raised.value.sequence, raised.value.foretold) == (NONE, HIGH)


def test_the_engines_own_backwards_on_two_devices_are_replayed() -> None:
    """Its queues are recorded, so that they can be compared."""
    ours.sim.set(latency=0.0005)
    w, v = (ours.ones(3).to(device).requires_grad_() for device in ("sim:0", "sim:1"))
    x = ours.ones(3).requires_grad_()
    with record() as recording:
        for _ in range(3):
            a = (x * 2).to("sim:0") * w
            b = ours.tanh(a).to("sim:1") * v
            (b.to("cpu").sum() + (a * a).to("cpu").sum() + x.sum()).backward()
    trace = recording.trace()
    for task in trace.rows(GraphTask):
        _compared(trace, task.id)


def _compared(trace: Trace, number: int) -> None:
    task = next(row for row in trace.rows(GraphTask) if row.id == number)
    pushes = [row for row in trace.rows(Push) if row.task == number]
    queues = {row.node: row.queue for row in pushes}
    ends = {row.node: row.t for row in trace.rows(NodeEnd) if row.task == number}
    graph = _graph(CheckedTrace(trace))
    begun = [row for row in trace.rows(NodeBegin) if row.task == number]
    rows = [(row.t, ends[row.node], graph.sequence[row.node]) for row in begun]
    assert len({row.thread for row in begun}) == 3
    backward = ReplayBackward(graph, pushes[0].node)
    asked = task_of(pushes[0].node, task.begin)._replace(id=number, thread=task.thread)
    tasks = {number: QueueTask(asked, backward, queues.__getitem__)}
    seen = SeenTask(rows, [row.thread for row in begun])
    runs: list[QueueRun] = runs_of(tasks, {number: seen})
    replay = SeveralQueues(tasks, runs, set(), {*queues.values()} - {task.thread})
    found: defaultdict[int, list[int]] = defaultdict(list)
    for each in replay.moments():
        if isinstance(each, Left):
            found[each.queue].append(each.node)
    recorded: defaultdict[int, list[int]] = defaultdict(list)
    for row in trace.rows(Pop):
        if row.task == number:
            recorded[row.queue].append(row.node)
    assert found == recorded


@pytest.mark.parametrize("sums", [0, 1])
def test_a_device_may_receive_none_among_its_gradients(sums: int) -> None:
    writer = MemoryWriter()
    name = writer.intern
    threads = {"id": [CALLER, DEVICE], "name": [name("main"), name("cuda:0")]}
    writer.block(Thread, threads)
    writer.block(Device, {"id": [0, 1], "name": [name("cpu"), name("cuda:0")]})
    writer.block(Tensor, {"id": [0, 1], "device": [0, 1]})
    writer.block(
        Node,
        {
            "id": [ROOT, LOW],
            "name": [name("AddBackward0"), name("SinBackward0")],
            "sequence_nr": [9, 3],
            "topological_nr": [1, 0],
            "inputs": [(0,), (1,)],
        },
    )
    zeros = [0, 0]
    writer.block(
        Edge, {"node": [ROOT, ROOT], "index": [0, 1], "next": [LOW, LOW], "input_nr": zeros}
    )
    writer.block(
        GraphTask,
        {
            "id": [0],
            "roots": [(ROOT,)],
            "thread": [CALLER],
            "begin": [1],
            "depth": [0],
            "keep_graph": [0],
            "accumulate_grad": [1],
            "parent": [-1],
        },
    )
    asked = {"root": [ROOT], "failed": [0], "inputs": [()], "input_nrs": [()]}
    writer.block(tables.ShortAsked, {"task": [0], **asked})
    times = {"begin": [10, 30], "ended": [20, 40], "thread": [CALLER, DEVICE]}
    writer.block(tables.ShortSeenRun, {"task": zeros, "sequence": [9, 3], **times})
    what = [tables.SEEN] + [tables.ADDED] * sums
    writer.block(
        tables.ShortInside, {"task": [0] * len(what), "run": [-1, 0][: len(what)], "what": what}
    )
    trace = writer.trace()

    (task,) = trace.rows(GraphTask)
    assert task.order == (Order.FORETOLD if sums else Order.NOT_THE_SUMS)
    assert [(row.node, row.queue) for row in trace.events(Pop)][:2] == [
        (ROOT, CALLER),
        (LOW, DEVICE),
    ]
    assert [row.remaining for row in trace.events(Decrement)] == [1, 0]
    assert len([*trace.events(BufferMade, BufferAdded)]) == 2 * sums
