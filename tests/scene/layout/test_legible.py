"""Pictures that nobody chose a number of boxes for can be read on a screen, whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradscope.scene.choices import GraphOf
from gradscope.scene.graph.graph import graph_scene
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.layout.legible import LEAST, legible_scene, title_height
from gradscope.trace.load_save import load
from gradscope.trace.schema import Edge, Node
from tests.shared.by_hand import trace_of

GALLERY = Path(__file__).parents[3] / "docs" / "gallery"
TRACES = sorted(path.name.partition(".")[0] for path in GALLERY.glob("*.json*"))


def test_the_gallery_has_those_that_are_large() -> None:
    assert {"gpt", "mlp", "resnet", "rnn", "shared_weight"} <= set(TRACES)


@pytest.mark.parametrize("name", TRACES)
def test_titles_in_every_picture_of_the_gallery_can_be_read(name: str) -> None:
    (path,) = GALLERY.glob(f"{name}.json*")
    trace = load(path)

    for graph in (GraphOf.BACKWARD, GraphOf.FORWARD, GraphOf.BOTH):
        scene = legible_scene(trace, GraphOptions(graph=graph))

        assert title_height(scene) >= LEAST
        assert len(scene.boxes) >= 4


def test_fewer_boxes_stand_where_titles_would_be_too_small_unless_a_number_was_named() -> None:
    wide = trace_of(
        *(Node(id, f"ScaledDotProductFlashAttention{id}") for id in range(55)),
        *(Edge(id, other, other) for id in range(55) for other in range(max(0, id - 5), id)),
    )

    assert (
        title_height(graph_scene(wide)) < LEAST <= title_height(legible_scene(wide, GraphOptions()))
    )
    assert len(legible_scene(wide, GraphOptions(limit=50)).boxes) == 50
    assert len(legible_scene(wide, GraphOptions(everything=True)).boxes) == 55
