from __future__ import annotations

from gradscope.scene.graph.graph import graph_scene
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.graph.picture import Group
from gradscope.trace.by_hand import trace_of
from gradscope.trace.schema import Edge, Module, Node


def test_modules_of_one_path_in_two_models_are_framed_apart_each_with_its_own_type() -> None:
    scene = graph_scene(
        trace_of(
            Module(0, "", "Generator"),
            Module(1, "0", "Linear", parent=0),
            Module(2, "", "Critic"),
            Module(3, "0", "Conv2d", parent=2),
            Node(0, "AddmmBackward0", module=1),
            Node(1, "ConvolutionBackward0", module=3),
            Node(2, "MulBackward0", module=2),
            Edge(2, 0, 1),
            Edge(1, 0, 0),
        ),
        GraphOptions(everything=True),
    )

    assert scene.groups == (
        Group("Critic/1", "Critic · model", ""),
        Group("Critic.0/1", "Critic.0 · Conv2d", "Critic/1"),
        Group("Generator/1", "Generator · model", ""),
        Group("Generator.0/1", "Generator.0 · Linear", "Generator/1"),
    )
