from __future__ import annotations

import pytest

from gradscope.scene.graph.graph import graph_scene
from gradscope.scene.graph.options import GraphOptions
from gradscope.trace.schema import Edge, GraphTask, Module, Node
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of
from tests.shared.example_traces import shared_weight, two_layers


def not_shown(trace: Trace, options: GraphOptions) -> dict[str, str]:
    """By box, what it says of arrows that are not drawn."""
    return {
        box.id: line.text
        for box in graph_scene(trace, options).boxes
        for line in box.lines
        if line.text.startswith("⋯")
    }


def test_a_box_says_how_many_arrows_a_cut_took_from_it() -> None:
    chain = trace_of(
        *(Node(id, f"N{id}") for id in range(6)),
        *(Edge(id, 0, id + 1) for id in range(5)),
        Edge(1, 1, 5),
    )

    assert not_shown(chain, GraphOptions(limit=2)) == {"n1": "⋯ 2 edges to nodes not shown"}
    assert not_shown(chain, GraphOptions(limit=9)) == {}


def test_no_arrow_is_dropped_in_silence_whatever_the_limit() -> None:
    for trace in (two_layers(layers=3), shared_weight(9)):
        whole = len(graph_scene(trace, GraphOptions(everything=True)).arrows)
        for limit in range(1, 30):
            scene = graph_scene(trace, GraphOptions(limit=limit))
            cut = any("showing" in note for note in scene.notes)
            said = any(line.text.startswith("⋯") for box in scene.boxes for line in box.lines)
            assert said == cut, limit
            assert cut or len(scene.arrows) <= whole


def test_a_folded_box_says_it_too() -> None:
    trace = trace_of(
        Module(0, "", "Model"),
        Module(1, "a", "Linear"),
        *(Node(id, "A", module=1) for id in (7, 8)),
        *(Node(id, "B") for id in (5, 6)),
        Edge(8, 0, 7),
        Edge(7, 0, 6),
        Edge(8, 1, 6),
        Edge(6, 0, 5),
        GraphTask(0, roots=(8,)),
    )

    assert not_shown(trace, GraphOptions(limit=1)) == {"m:a/1": "⋯ 2 edges to nodes not shown"}


def test_a_merged_leaf_says_how_many_of_its_uses_are_not_shown() -> None:
    trace = trace_of(
        Node(0, "AccumulateGrad"),
        *(Node(id, f"N{id}") for id in range(1, 10)),
        *(Edge(id, 0, 0) for id in range(1, 10)),
        *(Edge(id, 1, id - 1) for id in range(2, 10)),
        GraphTask(0, roots=(9,)),
    )
    options = GraphOptions(limit=8, merge_leaves=True)

    assert not_shown(trace, options) == {
        "n0": "⋯ 2 edges to nodes not shown",
        "n3": "⋯ 1 edge to nodes not shown",
    }


def test_of_very_many_leaves_beside_a_node_a_few_are_drawn_and_the_node_says_how_many_are_not() -> (
    None
):
    trace = trace_of(
        *(Node(id, "AccumulateGrad") for id in range(50)),
        Node(50, "CatBackward0"),
        *(Edge(50, id, id) for id in range(50)),
    )

    assert len(graph_scene(trace).boxes) == 13
    assert not_shown(trace, GraphOptions()) == {"n50": "⋯ 38 edges to nodes not shown"}
    assert len(graph_scene(trace, GraphOptions(everything=True)).boxes) == 51


@pytest.mark.parametrize(
    ("edges", "labels"), [(2, ["out 0", "out 1 · in 1"]), (3, ["3 gradients"])]
)
def test_many_arrows_from_one_box_to_another_are_one(edges: int, labels: list[str]) -> None:
    pairs = [Edge(2, index, 1, input_nr=index) for index in range(edges)]
    trace = trace_of(Node(1, "UnbindBackward0"), Node(2, "AttentionBackward0"), *pairs)

    assert [arrow.label for arrow in graph_scene(trace).arrows] == labels
    with_shapes = graph_scene(trace, GraphOptions(tensors=True))
    assert len(with_shapes.arrows) == edges
