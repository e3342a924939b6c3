from __future__ import annotations

from gradscope.analysis.graph.memory import Peak, saved_peak
from gradscope.analysis.identity.leaves import NamedLeaf
from gradscope.analysis.program.modules import ModuleFacts, module_names, modules, parts_of
from gradscope.analysis.program.summary import Summary, leaves, summary
from gradscope.trace.schema import (
    GraphTask,
    Module,
    Node,
    NodeBegin,
    NodeEnd,
    Op,
    Saved,
    Storage,
    Tensor,
)
from tests.shared.by_hand import trace_of
from tests.shared.example_traces import mean_of_squares


def test_the_summary_counts_what_a_trace_holds() -> None:
    assert summary(mean_of_squares()) == Summary(
        producer="gradscope 0.1.0",
        level="engine",
        script="ex.py",
        steps=0,
        backwards=1,
        nested=0,
        ops=4,
        nodes=5,
        edges=5,
        leaves=1,
        tensors=5,
        threads=1,
        events=37,
        hook_calls=0,
        in_place_writes=0,
        is_partial=False,
        errors=0,
        saved_peak_bytes=32,
        forward_ns=8_000,
        backward_ns=43_500,
        optimizer_ns=0,
        own_ns=0,
    )


def test_a_backward_inside_another_counts_as_nested_and_its_time_once() -> None:
    trace = trace_of(GraphTask(0, begin=0, end=100), GraphTask(1, parent=0, begin=10, end=20))

    assert (summary(trace).backwards, summary(trace).nested, summary(trace).backward_ns) == (
        1,
        1,
        100,
    )


def test_forward_time_is_what_operations_cover_outside_of_backward() -> None:
    trace = trace_of(
        Op(0, "linear", begin=0, end=10),
        Op(1, "addmm", begin=2, end=8),
        Op(2, "mul", begin=20, end=25),
        Op(3, "mul", begin=30, end=90, task=0),
        Op(4, "mul", begin=40, end=45, thread=1),
    )

    assert summary(trace).forward_ns == 20


def test_a_leaf_counts_once_however_often_its_node_is_made_anew() -> None:
    trace = trace_of(
        Tensor(0, name="w", leaf=True),
        Node(0, "AccumulateGrad", inputs=(0,)),
        Node(1, "AccumulateGrad", inputs=(0,)),
    )

    assert leaves(trace) == (NamedLeaf(0, "w", guessed=False, shape=(), dtype=""),)


def test_a_storage_that_two_nodes_keep_counts_once() -> None:
    trace = trace_of(
        Tensor(0, storage=0),
        Tensor(1, storage=0),
        Saved(0, tensor=0, bytes=100, t=1, released=10),
        Saved(1, tensor=1, bytes=100, t=2, released=20),
        Saved(2, bytes=7, t=15, released=30),
    )

    assert saved_peak(trace) == Peak(107, 15)


def test_views_of_one_tensor_count_once_even_where_their_storage_is_not_known() -> None:
    trace = trace_of(
        Tensor(0, storage=5),
        Op(3, "t", inputs=(0,)),
        Op(4, "t.default", inputs=(0,)),
        Tensor(1, storage=6, op=3),
        Tensor(2, storage=7, op=4),
        Saved(0, tensor=1, bytes=100, t=1),
        Saved(1, tensor=2, bytes=100, t=2),
    )

    assert saved_peak(trace) == Peak(100, 1)


def test_what_was_freed_with_its_graph_is_held_no_more() -> None:
    trace = trace_of(
        Storage(0, bytes=100, freed=5),
        Tensor(0, storage=0),
        Saved(0, tensor=0, bytes=100, t=1),
        Saved(1, bytes=60, t=9),
    )

    assert saved_peak(trace) == Peak(100, 1)


def test_the_peak_is_before_the_release_of_the_last_holder() -> None:
    trace = trace_of(
        Tensor(0, storage=0),
        Tensor(1, storage=1),
        Saved(0, tensor=0, bytes=100, t=1, released=5),
        Saved(1, tensor=1, bytes=60, t=5, released=9),
    )

    assert saved_peak(trace) == Peak(100, 1)


def test_what_is_never_released_stays() -> None:
    assert saved_peak(trace_of(Saved(0, bytes=3, t=1), Saved(1, bytes=4, t=2))) == Peak(7, 2)
    assert saved_peak(trace_of()) == Peak(0, 0)


def test_a_module_is_told_with_its_own_counts() -> None:
    trace = trace_of(
        Module(0, "", "Net"),
        Module(1, "fc", "Linear", parent=0, parameters=(4, 5)),
        Op(0, "addmm", module=1),
        Node(0, "AddmmBackward0", module=1),
        NodeBegin(t=1, node=0),
        NodeEnd(t=5, node=0),
    )

    assert modules(trace) == (
        ModuleFacts(
            0, "", "", "Net", -1, parameters=0, ops=0, nodes=0, forward_ns=0, backward_ns=0
        ),
        ModuleFacts(
            1, "fc", "fc", "Linear", 0, parameters=2, ops=1, nodes=1, forward_ns=0, backward_ns=4
        ),
    )


def test_two_models_with_modules_of_one_path_each_have_their_own_time() -> None:
    trace = trace_of(
        Module(0, "", "Generator"),
        Module(1, "0", "Linear", parent=0),
        Module(2, "", "Critic"),
        Module(3, "0", "Conv2d", parent=2),
        Node(0, "AddmmBackward0", module=1),
        Node(1, "ConvolutionBackward0", module=3),
        NodeBegin(t=1, node=0),
        NodeEnd(t=5, node=0),
        NodeBegin(t=5, node=1),
        NodeEnd(t=15, node=1),
    )

    found = modules(trace)

    assert [module.backward_ns for module in found] == [0, 4, 0, 10]
    assert [m.name for m in found] == ["Generator", "Generator.0", "Critic", "Critic.0"]


def test_two_models_of_one_type_are_numbered() -> None:
    trace = trace_of(*(Module(id, "", "Linear") for id in range(2)))

    assert list(module_names(trace).values()) == ["Linear", "Linear#2"]


def test_modules_that_are_each_others_parents_have_names_too() -> None:
    trace = trace_of(Module(0, "a", "A", parent=1), Module(1, "b", "B", parent=0))

    assert len(module_names(trace)) == 2


def test_the_parts_of_a_path_go_from_the_outside_in() -> None:
    assert list(parts_of("a.b.c")) == ["a", "a.b", "a.b.c"]
    assert list(parts_of("")) == []
