"""Each rule of the spec: a good trace that keeps it, and planted faults that break it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradscope.trace.schema import (
    NONE,
    Accumulate,
    Accumulation,
    BufferAdded,
    BufferMade,
    Capture,
    Decrement,
    Dependency,
    Edge,
    GraphTask,
    HookBegin,
    HookEnd,
    Module,
    Node,
    NodeBegin,
    NodeEnd,
    Op,
    Pop,
    Push,
    ReentrantEnter,
    ReentrantLeave,
    Saved,
    SavedReleased,
    SavedUnpacked,
    Skipped,
    Stack,
    Storage,
    TaskBegin,
    TaskEnd,
    Thread,
    Value,
    Version,
    Wait,
    Wake,
)
from gradscope.trace.spec import RULES, check
from gradscope.trace.trace import Trace
from tests.shared import example_traces
from tests.shared.by_hand import trace_of
from tests.trace.spec.backward import (
    EVENTS,
    LEAF,
    MUL,
    ROWS,
    SUM,
    added,
    broken,
    changed,
    moved,
    run,
    with_rows,
    without,
)

LIMITED = changed(GraphTask, inputs=(LEAF,), needed=(SUM, MUL, LEAF), captured=(LEAF,))

# Rule → traces that break it, each with a name and with all rules it breaks.


def two_leaves(first: int, second: int, **meta: str) -> Trace:
    """A backward to two leaves, which run in this order."""
    root = 2
    nodes = [
        Node(0, "AccumulateGrad", NONE, thread=0), Node(1, "AccumulateGrad", NONE, thread=0),
        Node(root, "A", 5, 1, thread=0), Edge(root, 0, 0, 0), Edge(root, 1, 1, 0),
    ]  # fmt: skip
    handed = [
        each
        for leaf in (0, 1)
        for each in (
            Decrement(node=leaf, source=root, index=leaf),
            BufferMade(node=leaf),
            Push(node=leaf, length=leaf + 1),
        )
    ]
    ran = [
        each
        for left, node in ((1, first), (0, second))
        for each in (Pop(node=node, length=left), NodeBegin(node=node), NodeEnd(node=node))
    ]
    events = [
        TaskBegin(), Dependency(node=0, count=1), Dependency(node=1, count=1),
        Push(node=root, length=1), Pop(node=root, length=0), NodeBegin(node=root),
        NodeEnd(node=root), *handed, *ran, TaskEnd(),
    ]  # fmt: skip
    return run(events, [Thread(0), *nodes, GraphTask(0, roots=(root,))], **meta)


FAULTS: dict[str, tuple[Trace, set[str]]] = {
    "leaves in an order that does not follow": (
        two_leaves(1, 0, producer="gradscope.runtime"),
        {"what-follows-from-the-graph-is-what-happened"},
    ),
    "two rows of one id": (run(rows=with_rows(Stack(1))), {"ids-differ"}),
    "a negative id": (run(rows=with_rows(Module(-2))), {"ids-differ"}),
    "an id of nothing": (run(rows=changed(Node, 1, stack=7)), {"references-name-rows"}),
    "an id of nothing in a list": (
        run(rows=changed(Node, 1, inputs=(1, 9))),
        {"references-name-rows"},
    ),
    "a stack in itself": (run(rows=changed(Stack, 0, parent=1)), {"parents-make-no-circle"}),
    "an end before its beginning": (run(rows=changed(Op, 0, end=1)), {"ends-follow-beginnings"}),
    "freed before it was born": (run(rows=changed(Storage, freed=0)), {"ends-follow-beginnings"}),
    "released before it was saved": (
        run(rows=changed(Saved, released=1)),
        {"ends-follow-beginnings"},
    ),
    "a node made after it ran": (
        run(rows=changed(Node, 1, t=10**6)),
        {"nodes-exist-before-they-are-used"},
    ),
    "two edges of one output": (run(rows=with_rows(Edge(SUM, 0, LEAF))), {"edges-fit-their-nodes"}),
    "an edge to an input that is not there": (
        run(rows=changed(Edge, 2, input_nr=1)),
        {"edges-fit-their-nodes"},
    ),
    "an edge upwards": (
        run(rows=changed(Node, 1, topological_nr=2)),
        {"edges-fit-their-nodes"},
    ),
    "one sequence number twice": (
        run(rows=changed(Node, 2, sequence_nr=1)),
        {"sequence-numbers-differ"},
    ),
    "a node of another call": (
        run(rows=changed(Node, 1, op=1)),
        {"ops-and-nodes-name-each-other"},
    ),
    "a dropped event": (
        run([replace(e, seq=n + (n > 9)) for n, e in enumerate(EVENTS)]),
        {"events-are-numbered-without-holes"},
    ),
    "two events of one number": (
        run(changed(Wake, seq=3)),
        {
            "events-are-numbered-without-holes",
            "a-thread-that-wakes-had-waited",
            "times-rise-on-each-thread",
        },
    ),
    "time goes back": (run(changed(NodeEnd, 1, t=20)), {"times-rise-on-each-thread"}),
    "a task that begins twice": (
        run(added(TaskBegin(), after=1)),
        {"tasks-begin-and-end-once"},
    ),
    "a task that does not end": (run(without(TaskEnd)), {"tasks-begin-and-end-once"}),
    "a task that does not begin": (
        run(without(TaskBegin)),
        {"tasks-begin-and-end-once"},
    ),
    "an event after its task": (
        run(moved(Accumulate, 0, to=len(EVENTS) - 1)),
        {"events-lie-within-their-task"},
    ),
    "left without being entered": (
        run(added(ReentrantLeave(task=0), after=5)),
        {"reentrant-backwards-are-left"},
    ),
    "entered and not left": (
        run(added(ReentrantEnter(task=0, node=MUL), after=5)),
        {"reentrant-backwards-are-left"},
    ),
    "awake without sleeping": (run(without(Wait)), {"a-thread-that-wakes-had-waited"}),
    "popped without a push": (
        run(without(Push, 1)),
        {"pops-were-pushed"},
    ),
    "pushed for good": (
        run(without(Pop, 1)),
        {"pops-were-pushed", "queue-lengths-add-up", "nodes-run-after-their-pop"},
    ),
    "pushed twice": (
        run(added(Push(node=MUL, length=1), after=11)),
        {"pops-were-pushed"},
    ),
    "popped from another queue": (
        run(changed(Pop, 1, queue=1)),
        {"pops-were-pushed", "queue-lengths-add-up"},
    ),
    "a length off by one": (run(changed(Push, 1, length=2)), {"queue-lengths-add-up"}),
    "a count off by one": (
        run(changed(Dependency, 1, count=3)),
        {"counts-go-down-by-one", "nodes-are-ready-when-pushed-and-run"},
    ),
    "a count below zero": (
        run(changed(Dependency, 1, count=1)),
        {"counts-go-down-by-one"},
    ),
    "what remains is wrong": (
        run(changed(Decrement, 1, remaining=0)),
        {"counts-go-down-by-one"},
    ),
    "counted twice": (
        run(added(Dependency(node=MUL, count=1), after=2)),
        {
            "nodes-are-counted-once",
            "counts-go-down-by-one",
            "nodes-are-ready-when-pushed-and-run",
        },
    ),
    "pushed before it is ready": (
        run(moved(Push, 2, to=20)),
        {"nodes-are-ready-when-pushed-and-run"},
    ),
    "run without a pop": (
        run(moved(Pop, 1, to=15)),
        {"nodes-run-after-their-pop"},
    ),
    "run twice": (
        run(added(NodeBegin(node=SUM), NodeEnd(node=SUM), after=8)),
        {"nodes-run-once-in-a-task", "nodes-run-after-their-pop"},
    ),
    "a gradient along no edge": (
        run(changed(Decrement, 0, index=1)),
        {"gradients-go-along-edges"},
    ),
    "two gradients along one edge": (
        run(changed(Decrement, 2, index=0)),
        {"gradients-go-along-edges"},
    ),
    "a gradient of a node that did not run": (
        run(moved(Decrement, 0, to=5)),
        {"gradients-come-from-nodes-that-ran"},
    ),
    "a node that never runs": (
        run([e for e in EVENTS if not (isinstance(e, NodeBegin | NodeEnd) and e.node == LEAF)]),
        {"whole-backwards-run-every-node"},
    ),
    "ends out of turn": (
        run(moved(NodeEnd, 0, to=15)),
        {"nodes-nest-on-their-thread", "gradients-come-from-nodes-that-ran"},
    ),
    "ends on another thread": (
        run(changed(NodeEnd, 2, thread=1)),
        {"nodes-nest-on-their-thread"},
    ),
    "a node that never ends": (run(without(NodeEnd, 2)), {"nodes-nest-on-their-thread"}),
    "a hook that never ends": (run(without(HookEnd)), {"hooks-begin-and-end"}),
    "a hook that did not begin": (run(without(HookBegin)), {"hooks-begin-and-end"}),
    "a capture nobody asked for": (
        run(added(Capture(node=MUL), after=14)),
        {"captures-are-asked-for"},
    ),
    "a capture nobody planned": (
        run(added(Capture(node=MUL), after=14), LIMITED),
        {"captures-are-asked-for"},
    ),
    "a skip without a reason": (
        run(added(Push(node=LEAF, length=1), Pop(node=LEAF), Skipped(node=LEAF), after=28)),
        {"captures-are-asked-for", "skipped-nodes-do-not-run"},
    ),
    "a node runs that is not needed": (
        run(rows=changed(GraphTask, inputs=(MUL,), needed=(SUM, MUL))),
        {"skipped-nodes-do-not-run"},
    ),
    "a buffer made twice": (
        run(added(BufferMade(node=LEAF), after=21)),
        {"buffers-are-made-once-and-then-added-to"},
    ),
    "added to what was not made": (
        run(without(BufferMade, 1)),
        {"buffers-are-made-once-and-then-added-to"},
    ),
    "a gradient for a node that has run": (
        run(moved(BufferAdded, 0, to=27)),
        {"buffers-are-complete-when-their-node-runs"},
    ),
    "released twice": (
        run(added(SavedReleased(node=MUL), after=18)),
        {"saved-values-are-released-once"},
    ),
    "released without an event": (
        run(without(SavedReleased, 1)),
        {"saved-values-are-released-once"},
    ),
    "read after it was released": (
        run(moved(SavedUnpacked, 0, to=18)),
        {"saved-values-are-released-once"},
    ),
    "a forgotten version bump": (
        run(rows=changed(Version, 1, new=1)),
        {"versions-rise-by-one"},
    ),
    "a version that was lost": (
        run(rows=changed(Version, 1, old=4, new=5)),
        {"versions-rise-by-one"},
    ),
    "a node that accumulates and may not": (
        run(added(Accumulate(node=MUL, tensor=1), after=15)),
        {"gradients-accumulate-in-leaves"},
    ),
    "a gradient that is lost": (
        run(added(Accumulate(node=LEAF, tensor=0, how=Accumulation.CLONED), after=27)),
        {"gradients-accumulate-in-leaves"},
    ),
    "a missing clone": (
        run(rows=changed(GraphTask, create_graph=True)),
        {"gradients-accumulate-in-leaves"},
    ),
    "more zeros than elements": (run(rows=changed(Value, zero=4)), {"statistics-add-up"}),
    "a least element above the greatest": (
        run(rows=changed(Value, min=1.0)),
        {"statistics-add-up"},
    ),
    "the wrong node first": (
        run(
            [
                TaskBegin(),
                Push(node=MUL, length=1),
                Push(node=SUM, length=2),
                Pop(node=MUL, length=1),
                Pop(node=SUM, length=0),
                TaskEnd(),
            ],
            [row for row in ROWS if not isinstance(row, Saved)],
        ),
        {"pops-take-the-foremost"},
    ),
}


def test_a_good_trace_breaks_no_rule() -> None:
    assert check(run()) == []


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str) -> None:
    trace, rules = FAULTS[name]

    assert broken(trace) == rules


def test_our_engine_does_what_follows_and_of_others_it_is_not_asked() -> None:
    assert check(two_leaves(0, 1, producer="gradscope.runtime")) == []
    assert check(two_leaves(1, 0, producer="another")) == []


def test_every_rule_has_a_fault_that_breaks_it() -> None:
    assert set.union(*(rules for _, rules in FAULTS.values())) == RULES.keys()


def test_a_violation_says_what_and_where() -> None:
    [violation] = check(run(changed(Decrement, 1, remaining=0)))

    assert violation.rule == "counts-go-down-by-one"
    assert violation.message == (
        "node 0 ('AccumulateGrad') waits for 1 more gradients, but the event says 0"
    )
    assert (violation.table, violation.seq) == ("event.decrement", 18)


def test_a_rule_that_is_broken_everywhere_is_told_a_few_times() -> None:
    trace = trace_of(*(Module(id, parent=10**6) for id in range(1000)))

    assert len(check(trace)) == 10
    assert len(check(trace, limit=3)) == 3


def test_every_rule_says_what_holds() -> None:
    assert all(judge.__doc__ and judge.__doc__.strip().endswith(".") for judge in RULES.values())


@pytest.mark.parametrize(
    "trace",
    [
        trace_of(),
        example_traces.mean_of_squares(),
        example_traces.two_layers(steps=3, layers=3),
        example_traces.shared_weight(10),
        example_traces.nan_in_backward(),
    ],
)
def test_traces_of_whole_programs_break_no_rule(trace: Trace) -> None:
    assert check(trace) == []
