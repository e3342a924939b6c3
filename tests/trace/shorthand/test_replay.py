"""A replay foretells in which order an engine runs nodes, and what is counted and queued."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, strategies as st

import gradscope.runtime as ours
from gradscope.record.recorder import record
from gradscope.trace.schema import GraphTask
from gradscope.trace.shorthand.replay import NOBODY, Popped, Ready, ReplayBackward, ReplayGraph
from gradscope.trace.spec.checked_trace import CheckedTrace
from gradscope.trace.spec.foretold import compared, what_follows_from_the_graph_is_what_happened
from tests.programs import Program, outcome, programs
from tests.shared.searching import searching

ROOT, MUL, LEFT, RIGHT = range(4)
DIAMOND = ReplayGraph(
    edges={ROOT: [(MUL, 0), (LEFT, 0)], MUL: [(LEFT, 0), (RIGHT, 0)], LEFT: [], RIGHT: []},
    sequence={ROOT: 7, MUL: 3, LEFT: -1, RIGHT: -1},
    topological={ROOT: 2, MUL: 1, LEFT: 0, RIGHT: 0},
)


def nodes(backward: ReplayBackward) -> list[tuple[int, bool]]:
    return [(step.node, step.runs) for step in backward.steps()]


def test_nodes_are_counted_and_run_as_soon_as_all_their_gradients_are_there() -> None:
    backward = ReplayBackward(DIAMOND, ROOT)

    assert backward.counts == {MUL: 1, LEFT: 2, RIGHT: 1}
    assert nodes(backward) == [(ROOT, True), (MUL, True), (LEFT, True), (RIGHT, True)]


def test_what_inputs_do_not_ask_for_does_not_run() -> None:
    accumulating = ReplayBackward(DIAMOND, ROOT, [(RIGHT, 0)])
    capturing = ReplayBackward(DIAMOND, ROOT, [(MUL, 0)], accumulates=False)

    assert nodes(accumulating) == [(ROOT, True), (MUL, True), (RIGHT, True)]
    assert nodes(capturing) == [(ROOT, True), (MUL, False)]
    assert capturing.captures == {MUL: (0,)}


def test_nothing_is_counted_far_below_what_is_asked_for() -> None:
    chain = ReplayGraph(
        edges={n: [(n + 1, 0)] for n in range(4)} | {4: []},
        sequence={n: 9 - n for n in range(4)} | {4: -1},
        topological={n: 4 - n for n in range(5)},
    )

    assert ReplayBackward(chain, 0, [(1, 0)], accumulates=False).counts == {1: 1, 2: 1}


def test_an_undefined_gradient_takes_no_place() -> None:
    double = ReplayGraph({0: [(1, 0), (1, 0)], 1: []}, {0: 1, 1: -1}, {0: 1, 1: 0})

    def added(*undefined: tuple[int, int]) -> list[bool]:
        [root, _] = ReplayBackward(double, 0, undefined=undefined).steps()
        return [sent.added for sent in root.sent]

    assert added() == [False, True]
    assert added((0, 0)) == [False, False]
    assert added((0, 1)) == [False, True]


def test_what_outer_backwards_left_in_the_queue_stays_behind_and_counts() -> None:
    queue: list[Ready] = []
    outer = ReplayBackward(DIAMOND, ROOT, queue=queue)
    outer.begin()
    walk = outer.walk()
    while not isinstance(each := next(walk), Popped) or each.node != LEFT:
        pass
    inner = ReplayBackward(DIAMOND, ROOT, depth=1, queue=queue).steps()

    assert [step.length for step in inner] == [1, 1, 2, 1]
    assert [each.node for each in walk if isinstance(each, Popped)] == [RIGHT]
    assert queue == []


# PyTorch ----------------------------------------------------------------------------------------


SEVERAL = 0
"""In place of the id of the node that stands before several roots."""


class Task:
    """A backward under way on PyTorch, and its replay."""

    def __init__(self, backward: ReplayBackward) -> None:
        self.taken: Popped | None = None
        self.foretold = True
        backward.begin()
        self._walk = backward.walk()

    def reach(self, node: int) -> None:
        """The engine has taken this node."""
        while self.taken is None or self.taken.node != node:
            taken = next((each for each in self._walk if isinstance(each, Popped)), None)
            self.taken = taken
            passed = taken is not None and (taken.node == SEVERAL or not taken.runs)
            if taken is None or (taken.node != node and not passed):
                self.foretold = False
                return

    def ended(self) -> None:
        """It has run all it wanted to."""
        left = [
            each
            for each in self._walk
            if isinstance(each, Popped) and each.runs and each.node != SEVERAL
        ]
        self.foretold = self.foretold and not left


class Shadow:
    """Stands before PyTorch's engine: each backward is replayed beside it."""

    def __init__(self, torch: Any, engine: Any) -> None:
        self._torch, self._engine = torch, engine
        self._tasks: list[Task] = []
        self._queue: list[Ready] = []
        self._handles: dict[int, tuple[Any, Any]] = {}  # nodes are kept: their ids are keys
        self.failed = False
        self.foretold: list[bool] = []
        self.nodes = self.missed = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def run_backward(
        self, tensors: Any, grads: Any, keep: bool, create: bool, inputs: Any = (), *others: Any,
        **more: Any,
    ) -> Any:  # fmt: skip
        """As the engine's."""
        given = (tensors, grads, keep, create, inputs, *others)
        if self.failed:
            return self._engine.run_backward(*given, **more)
        accumulates = more.get("accumulate_grad", others[1] if len(others) > 1 else False)
        try:
            task = self._task(tensors, inputs or (), accumulates=accumulates)
        except RuntimeError:  # there is no such edge: the engine refuses it, too
            found = self._engine.run_backward(*given, **more)
            self.missed += 1
            return found
        self._tasks.append(task)
        try:
            found = self._engine.run_backward(*given, **more)
            task.ended()
            self.foretold.append(task.foretold)
        except BaseException:
            self.failed = True  # what it leaves in the queue is thrown away some time
            raise
        finally:
            self._tasks.pop()
            if not self._tasks:
                self._let_go()
        return found

    def _task(self, tensors: Any, inputs: Any, *, accumulates: bool) -> Task:
        if self._tasks:
            self._tasks[-1].reach(id(self._torch._C._current_autograd_node()))
        edge = self._torch.autograd.graph.get_gradient_edge
        roots, wanted = (
            [each if isinstance(each, tuple) else edge(each) for each in group]
            for group in (tensors, inputs)
        )
        graph = self._graph([*roots, *wanted])
        return Task(
            ReplayBackward(
                graph, _first(graph, roots), [(id(each[0]), each[1]) for each in wanted],
                accumulates=accumulates, depth=len(self._tasks), queue=self._queue,
            )
        )  # fmt: skip

    def _graph(self, edges: Sequence[Any]) -> ReplayGraph:
        graph = ReplayGraph({}, {}, {})
        pending = [edge[0] for edge in edges]
        while pending:
            node = pending[-1]
            following = [(each, nr) for each, nr in node.next_functions]
            unseen = [e for e, _ in following if e is not None and id(e) not in graph.edges]
            if unseen:
                pending += unseen
                continue
            pending.pop()
            if id(node) in graph.edges:
                continue
            self._listen(node)
            number = node._sequence_nr()
            put: Any = graph
            put.edges[id(node)] = [(NOBODY if e is None else id(e), nr) for e, nr in following]
            put.sequence[id(node)] = -1 if number >= 1 << 63 else number
            put.topological[id(node)] = 1 + max(
                (graph.topological[id(e)] for e, _ in following if e is not None), default=-1
            )
        return graph

    def _listen(self, node: Any) -> None:
        if id(node) not in self._handles:
            self._handles[id(node)] = node, node.register_prehook(lambda grads: self._ran(node))

    def _ran(self, node: Any) -> None:
        self.nodes += 1
        if self._tasks:
            self._tasks[-1].reach(id(node))

    def _let_go(self) -> None:
        for _, handle in self._handles.values():
            handle.remove()
        self._handles.clear()
        self._queue.clear()
        self.failed = False


def _first(graph: ReplayGraph, roots: Sequence[Any]) -> int:
    """The one root, or a node before several."""
    if len(roots) == 1:
        return id(roots[0][0])
    put: Any = graph
    put.edges[SEVERAL] = [(id(each[0]), each[1]) for each in roots]
    put.sequence[SEVERAL] = 1 << 62
    put.topological[SEVERAL] = 1 + max(graph.topological[id(node)] for node, *_ in roots)
    return SEVERAL


@contextmanager
def shadowed(torch: Any) -> Iterator[Shadow]:
    variable: Any = torch.autograd.variable.Variable
    engine = variable._execution_engine
    variable._execution_engine = shadow = Shadow(torch, engine)
    try:
        yield shadow
    finally:
        variable._execution_engine = engine


@pytest.mark.torch
@searching(150)
@given(programs())
def test_pytorch_runs_nodes_in_the_order_that_is_foretold(program: Program) -> None:
    torch = pytest.importorskip("torch")
    with shadowed(torch) as shadow:
        outcome(torch, program)

    assert all(shadow.foretold)
    assert shadow.missed == 0


LEAVES = 14
PAIRS = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200)), min_size=20, max_size=120)


def many_leaves(torch: Any, pairs: Sequence[tuple[int, int]], inside: int) -> None:
    """A graph in which many leaves are ready at once, with a backward inside one of its nodes."""
    values = [torch.ones(1, requires_grad=True) for _ in range(LEAVES)]
    for first, second in pairs:
        values.append(values[first % len(values)] + values[second % len(values)])

    def hook(grad: Any) -> None:
        with torch.enable_grad():
            more = [torch.ones(1, requires_grad=True) for _ in range(LEAVES)]
            torch.stack([a * b for a, b in zip(more, reversed(more), strict=True)]).sum().backward()

    values[inside % len(values)].register_hook(hook)
    everything = torch.stack([*values[:LEAVES], values[-1]]).sum()
    torch.autograd.backward([values[-1], values[len(values) // 2], everything])


@pytest.mark.torch
@searching(40)
@given(PAIRS, st.integers(0, 200))
def test_pytorch_gives_out_leaves_as_is_foretold(pairs: list[tuple[int, int]], inside: int) -> None:
    torch = pytest.importorskip("torch")
    with shadowed(torch) as shadow:
        many_leaves(torch, pairs, inside)

    assert all(shadow.foretold)
    assert shadow.missed == 0
    assert shadow.nodes > LEAVES


@searching(40)
@given(PAIRS, st.integers(0, 200))
def test_our_engine_gives_out_leaves_as_is_foretold(
    pairs: list[tuple[int, int]], inside: int
) -> None:
    with record() as recording:
        many_leaves(ours, pairs, inside)
    facts = CheckedTrace(recording.trace())

    assert len(compared(facts)) == len(recording.trace().table(GraphTask))
    assert [*what_follows_from_the_graph_is_what_happened(facts)] == []
