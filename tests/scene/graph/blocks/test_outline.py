from __future__ import annotations

import pytest

from gradscope.analysis.graph.selection import Selection
from gradscope.errors import EmptyTraceError
from gradscope.scene.graph.graph import graph_scene
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.graph.picture import BoxLine, Group
from gradscope.trace.schema import (
    Edge,
    Frame,
    GraphTask,
    Module,
    Node,
    NodeBegin,
    NodeEnd,
    Row,
    Stack,
)
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of


def test_many_modules_in_a_row_that_differ_are_cut_into_stretches_of_stretches() -> None:
    rows = [Module(0, "", "Net"), *(Module(id, f"m{id}", f"Kind{id}") for id in range(1, 501))]
    nodes = [Node(id, f"Op{id}Backward0", module=id) for id in range(1, 501)]
    scene = graph_scene(trace_of(*rows, *nodes), GraphOptions(limit=30))

    assert 12 < len(scene.boxes) <= 30
    stretches = {each.title for each in (*scene.boxes, *scene.groups)}
    assert "1 to 144 of 500 · m1 … m144" in stretches
    drawn = {node for box in scene.boxes for node in box.nodes}
    assert drawn == set(range(1, 501))
    opened = graph_scene(trace_of(*rows, *nodes), GraphOptions(limit=60, expand=("m333",)))
    assert "Op333Backward0" in {box.title for box in opened.boxes}


def test_modules_of_one_path_in_two_models_are_framed_apart_each_with_its_own_type() -> None:
    scene = graph_scene(
        trace_of(
            Module(0, "", "Generator"),
            Module(1, "0", "Linear", parent=0),
            Module(2, "", "Critic"),
            Module(3, "0", "Conv2d", parent=2),
            Node(0, "AddmmBackward0", module=1),
            Node(1, "ViewBackward0", module=1),
            Node(2, "ConvolutionBackward0", module=3),
            Node(3, "ReluBackward0", module=3),
            Node(4, "MulBackward0", module=2),
            Node(5, "SumBackward0", module=2),
            *(Edge(id + 1, 0, id) for id in range(5)),
        ),
        GraphOptions(everything=True),
    )

    assert scene.groups == (
        Group("Critic/1", "Critic · model", ""),
        Group("Critic.0/1", "Critic.0 · Conv2d", "Critic/1"),
        Group("Generator.0/1", "Generator · model › Generator.0 · Linear", ""),
    )


# Loops ---------------------------------------------------------------------------------------


def a_loop(turns: int, *more: Row) -> Trace:
    """h = cell(x[t], h), in a function of two lines, over and over."""
    frames = (
        Frame(0, "rnn.py", 9, "<module>", "h = cell(x[t], h)"),
        Frame(1, "rnn.py", 5, "cell", "s = w @ h"),
        Frame(2, "rnn.py", 6, "cell", "return s.tanh()"),
    )
    stacks = (Stack(0, 0), Stack(1, 1, 0), Stack(2, 2, 0))
    nodes = [
        Node(3 * turn + place, name, stack=place)
        for turn in range(turns)
        for place, name in enumerate(("Select", "Mv", "Tanh"))
    ]
    last = 3 * turns
    runs = [
        row(task=0, node=id, t=10 * (last - id) + (row is NodeEnd) * (9 if id == 13 else 5))
        for id in range(last, -1, -1)
        for row in (NodeBegin, NodeEnd)
    ]
    return trace_of(
        *frames,
        *stacks,
        *nodes,
        Node(last, "Sum"),
        *(Edge(id + 1, 0, id) for id in range(last)),
        GraphTask(0, roots=(last,)),
        *runs,
        *more,
    )


def test_a_loop_is_one_box_that_says_its_line_and_names_its_slowest_turn() -> None:
    scene = graph_scene(a_loop(100), GraphOptions(limit=2))

    assert [(box.title, [line.text for line in box.lines]) for box in scene.boxes[1:]] == [
        (
            "×100 · h = cell(x[t], h)",
            ["3 nodes each", "rnn.py:9", "slowest: iteration 5, 19 ns", "ran 1.50 µs"],
        )
    ]


def test_an_opened_loop_shows_its_first_slowest_and_last_turn() -> None:
    boxes = graph_scene(a_loop(100), GraphOptions(limit=6)).boxes

    assert [box.title for box in boxes] == [
        "Sum",
        "iteration 100 of 100",
        "×94 · iterations 6 … 99",
        "iteration 5 of 100, slowest",
        "×3 · iterations 2 … 4",
        "iteration 1 of 100",
    ]
    assert [line.text for line in boxes[2].lines] == ["3 nodes each", "ran 1.41 µs"]


def test_the_turn_in_which_a_node_in_focus_or_a_failure_is_is_shown_and_open() -> None:
    around = GraphOptions(selection=Selection(around="151", hops=10**6), limit=2)

    for trace, options in (
        (a_loop(100), around),
        (a_loop(100), GraphOptions(expand=("151",), limit=2)),
        (a_loop(100, NodeEnd(task=0, node=151, failed=True)), GraphOptions(limit=12)),
    ):
        scene = graph_scene(trace, options)
        assert "iteration 51 of 100" in [group.title for group in scene.groups]
        assert "n151" in [box.id for box in scene.boxes]


def test_a_loop_that_is_to_stay_folded_is_named_by_its_module_or_line() -> None:
    blocks = trace_of(
        *(Frame(id, "gpt.py", 4 + id, "f", f"line {id}") for id in range(2)),
        *(Stack(id, id) for id in range(2)),
        *(Module(id, f"blocks.{id}", "Block") for id in range(12)),
        *(Node(id, "Mul", module=id // 2, stack=0) for id in range(24)),
        Node(24, "Sum", stack=1),
        *(Edge(id + 1, 0, id) for id in range(24)),
    )

    for name, box in (
        ("blocks", "blocks"),
        ("gpt.py:4", "blocks"),
        ("24", "blocks.11 · Block · 12 of 12"),
    ):
        boxes = graph_scene(blocks, GraphOptions(fold=(name,), limit=4)).boxes
        assert boxes[1].title == box, name


def test_equal_blocks_in_a_row_are_a_loop_whose_turns_are_called_by_their_paths() -> None:
    blocks = trace_of(
        *(Module(id, f"block{id}", "Block") for id in range(12)),
        *(Node(id, "Mul", module=id // 2) for id in range(24)),
        *(Edge(id + 1, 0, id) for id in range(23)),
    )

    assert [box.title for box in graph_scene(blocks, GraphOptions(limit=1)).boxes] == [
        "×12 · block0 … block11 · Block"
    ]
    assert [box.title for box in graph_scene(blocks, GraphOptions(limit=3)).boxes] == [
        "block11 · Block · 12 of 12",
        "×10 · block1 … block10",
        "block0 · Block · 1 of 12",
    ]


def test_no_folding_makes_a_cycle() -> None:
    for limit in range(1, 40):
        scene = graph_scene(a_loop(20), GraphOptions(limit=limit))
        arrows = {(arrow.tail, arrow.head) for arrow in scene.arrows}
        boxes = {box.id for box in scene.boxes}
        while sinks := boxes - {tail for tail, head in arrows if head in boxes}:
            boxes -= sinks
        assert boxes == set(), limit


# A part --------------------------------------------------------------------------------------


def two_ways() -> Trace:
    """From 5 over 4 and 3 to the leaf 0, and over 2 to the leaf 1; 3 is the slowest."""
    ways = ((5, 4), (4, 3), (3, 0), (5, 2), (2, 1))
    return trace_of(
        *(Node(id, "AccumulateGrad" if id < 2 else f"N{id}") for id in range(6)),
        *(Edge(a, 0, b) for a, b in ways),
        GraphTask(0, roots=(5,)),
        *(
            row(task=0, node=id, t=took * (row is NodeEnd) - 100 * id)
            for id, took in ((5, 5), (4, 5), (3, 50), (2, 40))
            for row in (NodeBegin, NodeEnd)
        ),
        meta={"script": "train.py"},
    )


def test_the_path_to_a_leaf_is_what_its_gradient_passes() -> None:
    scene = graph_scene(two_ways(), GraphOptions(selection=Selection(path_to="1")))

    assert scene.title == "train.py · path to AccumulateGrad#2"
    assert [box.id for box in scene.boxes] == ["n5", "n2", "n1"]
    assert BoxLine("⋯ 1 edge to nodes not shown") in scene.boxes[0].lines


def test_the_critical_path_is_the_chain_that_took_longest() -> None:
    scene = graph_scene(two_ways(), GraphOptions(selection=Selection(critical=True)))

    assert scene.title == "train.py · critical path"
    assert [box.id for box in scene.boxes] == ["n5", "n4", "n3", "n0"]


def test_without_times_no_chain_is_the_longest() -> None:
    with pytest.raises(EmptyTraceError, match="record it with --level engine"):
        graph_scene(trace_of(Node(0, "A")), GraphOptions(selection=Selection(critical=True)))
