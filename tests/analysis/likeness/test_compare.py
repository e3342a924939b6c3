"""Where two traces differ: the first difference with both source lines, and how many there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gradscope.analysis.likeness import Comparison, Tolerance, compare
from gradscope.analysis.likeness.aspects import Aspect, Difference
from gradscope.errors import EmptyTraceError
from gradscope.trace.schema import Decrement, Edge, GraphTask, Node, NodeBegin, Value
from gradscope.trace.trace import Trace
from tests.analysis.likeness.engines import on_gradscope
from tests.shared.by_hand import trace_of


def training(
    *, middle: Any = None, scale: float = 1.0, hook: bool = False, seed: int = 0, ones: bool = False
) -> Callable[[Any], None]:
    """Two steps of a small network; what may differ about it."""

    def program(torch: Any) -> None:
        nn = torch.nn
        torch.manual_seed(seed)
        inner = [] if middle is None else [middle(nn)]
        model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), *inner, nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        if hook:
            model[0].weight.register_hook(lambda grad: None)
        for _ in range(2):
            optimizer.zero_grad()
            loss = (model(torch.ones(5, 3) if ones else torch.randn(5, 3)) * scale).sum()
            loss.backward()
            optimizer.step()

    return program


def recorded(level: str = "engine", **what: Any) -> Trace:
    return on_gradscope(training(**what), level)


def kinds(comparison: Comparison) -> dict[Aspect, dict[str, int]]:
    """What differs, and how often."""
    return {each.kind: dict(each.counts) for each in comparison.sections if each.counts}


def first(comparison: Comparison) -> Difference:
    assert comparison.first is not None
    return comparison.first[1]


def test_a_run_is_like_itself() -> None:
    comparison = compare(recorded("values"), recorded("values"))

    assert comparison.first is None
    assert [each.kind for each in comparison.sections] == list(Aspect)
    assert comparison.not_compared == ()


def test_two_seeds_differ_in_values_alone() -> None:
    comparison = compare(recorded("values"), recorded("values", seed=1))

    assert set(kinds(comparison)) == {Aspect.VALUES}
    assert first(comparison).step == 0
    assert first(comparison).one.text.startswith("TBackward0 (node 0 in 0): count 12 min ")
    assert first(comparison).one.site == first(comparison).other.site


def test_values_that_are_close_enough_are_alike() -> None:
    one, other = recorded("values", ones=True), recorded("values", ones=True, scale=1.0001)

    near = compare(one, other, Tolerance(relative=1e-2))

    assert kinds(compare(one, other)).keys() == {Aspect.ARGUMENTS, Aspect.VALUES}
    assert kinds(near) == {Aspect.ARGUMENTS: {"nodes have different arguments": 2}}


def test_whether_a_sum_is_nothing_or_nearly_so_is_no_difference() -> None:
    def value(least: float, zero: int) -> Trace:
        node = Node(0, "ExpBackward0")
        return trace_of(node, GraphTask(5, roots=(0,)), NodeBegin(task=5, node=0), Value(
            0, place=2, node=0, index=0, task=5, count=2, zero=zero, min=least, max=1.0, mean=0.5,
            rms=0.7, norm=1.0,
        ))  # fmt: skip

    assert compare(value(0.0, 1), value(1e-9, 0)).first is None
    assert compare(value(0.0, 1), value(1e-2, 0)).first is not None


def test_another_layer_in_between_is_told_as_that_alone() -> None:
    """What comes after it is the same as before, though every number has changed."""
    comparison = compare(recorded(), recorded(middle=lambda nn: nn.Tanh()))

    assert kinds(comparison) == {
        Aspect.STRUCTURE: {"nodes that only the second has": 2},
        Aspect.NAMES: {"nodes are created in another module": 4},
    }
    assert first(comparison).other.text == "TanhBackward0 (node 3 in 2)"
    assert first(comparison).one.text == "nothing, then TBackward0 (node 3 in 2)"
    assert "loss = (model(" in first(comparison).other.site.text
    assert "events: counts and queues depend on the graphs, which differ" in (
        comparison.not_compared
    )


def test_another_function_in_a_nodes_place_is_another_name() -> None:
    one = recorded(middle=lambda nn: nn.Tanh())
    comparison = compare(one, recorded(middle=lambda nn: nn.Sigmoid()))

    assert kinds(comparison) == {Aspect.NAMES: {"nodes have a different name": 2}}
    assert first(comparison).one.text == "TanhBackward0 (node 3 in 2)"
    assert first(comparison).other.text == "SigmoidBackward0 (node 3 in 2)"


def test_another_width_changes_shapes_and_what_is_kept() -> None:
    def program(width: int) -> Callable[[Any], None]:
        return lambda torch: (torch.ones(2, width, requires_grad=True) ** 2).sum().backward()

    comparison = compare(on_gradscope(program(3)), on_gradscope(program(4)))

    assert kinds(comparison) == {
        Aspect.STRUCTURE: {"nodes receive different gradients": 1},
        Aspect.SAVED: {"nodes save something different": 1},
    }
    assert first(comparison).one.text == "PowBackward0 (node 0) receives (2, 3) float32"


def test_a_hook_is_an_event() -> None:
    comparison = compare(recorded(), recorded(hook=True))

    assert kinds(comparison) == {Aspect.EVENTS: {"backwards have different events": 2}}
    assert first(comparison).when == 0
    assert first(comparison).other.text.startswith(
        "hook_begin leaf 0 (0.weight) hook tensor index 0 stack "
    )


def in_this_order(*ran: int) -> Trace:
    """A sum above two nodes, which ran in this order; the gradients that they sent to a leaf."""
    nodes = [Node(0, "AccumulateGrad", -1, inputs=(9,)), Node(1, "ExpBackward0", 1),
             Node(2, "SinBackward0", 2), Node(3, "AddBackward0", 3)]  # fmt: skip
    edges = [Edge(1, 0, 0), Edge(2, 0, 0), Edge(3, 0, 1), Edge(3, 1, 2)]
    sent = [
        event
        for node in (3, *ran)
        for event in (
            NodeBegin(task=5, node=node),
            *([Decrement(task=5, node=0, source=node, index=0)] if node != 3 else []),
        )
    ]
    return trace_of(*nodes, *edges, GraphTask(5, roots=(3,)), *sent)


def test_orders_are_told_where_they_first_differ() -> None:
    comparison = compare(in_this_order(2, 1), in_this_order(1, 2))

    assert kinds(comparison) == {
        Aspect.EXECUTION: {"backwards run nodes in a different order": 1},
        Aspect.ACCUMULATION: {"backwards add gradients in a different order": 1},
        Aspect.EVENTS: {"backwards have different events": 1},
    }
    assert first(comparison).one.text == "SinBackward0 (node 1) runs as number 2"
    assert first(comparison).other.text == "ExpBackward0 (node 0) runs as number 2"
    accumulation = next(s for s in comparison.sections if s.kind is Aspect.ACCUMULATION)
    assert accumulation.first is not None
    assert accumulation.first.one.text == "SinBackward0 (node 1) sends gradient 0 to leaf 0"


def test_backwards_that_are_asked_otherwise() -> None:
    def program(*, retain: bool) -> Callable[[Any], None]:
        def run(torch: Any) -> None:
            torch.ones(2, requires_grad=True).exp().sum().backward(retain_graph=retain)

        return run

    comparison = compare(on_gradscope(program(retain=False)), on_gradscope(program(retain=True)))

    assert kinds(comparison)[Aspect.STRUCTURE] == {"backwards are called differently": 1}
    assert "keep_graph" in first(comparison).other.text
    assert "keep_graph" not in first(comparison).one.text


def test_fewer_steps_are_backwards_that_only_one_has() -> None:
    def program(steps: int) -> Callable[[Any], None]:
        def run(torch: Any) -> None:
            for _ in range(steps):
                torch.ones(2, requires_grad=True).exp().sum().backward()

        return run

    comparison = compare(on_gradscope(program(2)), on_gradscope(program(3)))

    assert kinds(comparison) == {
        Aspect.STRUCTURE: {
            "nodes that only the second has": 2,
            "backwards that only the second has": 1,
        }
    }


def test_what_a_level_lacks_is_not_compared_and_that_is_said() -> None:
    comparison = compare(recorded("graph"), recorded("values"))

    assert comparison.first is None
    assert [each.kind for each in comparison.sections] == [
        Aspect.STRUCTURE,
        Aspect.NAMES,
        Aspect.ARGUMENTS,
    ]
    assert comparison.not_compared == (
        "execution order, accumulation and events: the first trace is at level graph",
        "saved values: the first trace is without them",
        "values: the first trace is without them; record with --level values",
    )


def test_lines_that_have_moved_are_counted_and_are_no_difference() -> None:
    text = "\n{}x = torch.ones(2, requires_grad=True)\nx.exp().sum().backward()\n"

    def program(above: str) -> Callable[[Any], None]:
        def run(torch: Any) -> None:
            import linecache

            source = text.format(above)
            linecache.cache["ex.py"] = len(source), None, source.splitlines(True), "ex.py"
            exec(compile(source, "ex.py", "exec"), {"torch": torch})

        return run

    comparison = compare(on_gradscope(program("")), on_gradscope(program("# above\n")))

    assert comparison.first is None
    assert comparison.moved == 1


def test_without_a_backward_there_is_nothing_to_compare() -> None:
    with pytest.raises(EmptyTraceError, match="the second trace has no backward"):
        compare(recorded(), trace_of())
