from __future__ import annotations

from gradscope.analysis.graph.graph import (
    Graph,
    GraphEdge,
    GraphNode,
    NodeRun,
    NodeSaved,
    TensorMeta,
    graph,
)
from gradscope.analysis.identity.leaves import NamedLeaf
from gradscope.analysis.identity.sites import Site
from gradscope.trace.schema import NONE
from tests.shared.example_traces import mean_of_squares

SQUARE = TensorMeta((2, 2), "float32")


def test_a_node_says_where_it_was_made_what_it_keeps_and_when_it_ran() -> None:
    facts = graph(mean_of_squares(), [2, 0])

    assert facts == Graph(
        nodes=(
            GraphNode(
                id=2,
                name="MulBackward0",
                unique="MulBackward0#1",
                leaf=None,
                inputs=(SQUARE,),
                module="",
                site=Site("ex.py:5", "z = y * y * 3"),
                step=NONE,
                made_in=NONE,
                sequence_nr=2,
                root=False,
                runs=(NodeRun(task=0, backward=0, position=3, ns=5_500, self_ns=5_500),),
                backwards=(0,),
                captured=False,
                inside=NONE,
                saved=(
                    NodeSaved(0, "self", SQUARE, 16, released=False),
                    NodeSaved(1, "other", SQUARE, 16, released=False),
                ),
            ),
            GraphNode(
                id=0,
                name="AddBackward0",
                unique="AddBackward0",
                leaf=None,
                inputs=(SQUARE,),
                module="",
                site=Site("ex.py:4", "y = x + 2"),
                step=NONE,
                made_in=NONE,
                sequence_nr=0,
                root=False,
                runs=(NodeRun(task=0, backward=0, position=4, ns=3_500, self_ns=3_500),),
                backwards=(0,),
                captured=False,
                inside=NONE,
                saved=(),
            ),
        ),
        edges=(GraphEdge(2, 0, 0, 0, SQUARE), GraphEdge(2, 1, 0, 0, SQUARE)),
    )


def test_a_leaf_is_known_by_name_shape_and_dtype() -> None:
    (node,) = graph(mean_of_squares(), [1]).nodes

    assert node.leaf == NamedLeaf(0, "x", guessed=False, shape=(2, 2), dtype="float32")


def test_only_the_runs_of_the_tasks_asked_for_are_told() -> None:
    (node,) = graph(mean_of_squares(), [4], tasks=[5]).nodes

    assert node.root
    assert node.runs == ()
