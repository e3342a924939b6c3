"""Blocks with the same nodes and edges inside have the same color."""

from __future__ import annotations

import pytest

from gradscope.errors import UsageError
from gradscope.render.formats import Format
from gradscope.render.formats.dot import FORMAT as DOT
from gradscope.render.formats.svg import FORMAT as SVG
from gradscope.render.theme import LIGHT, STRUCTURE_KINDS, structure_paint
from gradscope.scene.choices import ColorBy, GraphOf
from gradscope.scene.graph.blocks.structures import letter_of
from gradscope.scene.graph.graph import graph_scene
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.graph.picture import Box, GraphScene
from gradscope.scene.kinds import Form
from gradscope.trace.schema import NONE, Edge, Module, Node, Row
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of

BLOCK = ("AddBackward0", "MulBackward0", "ReluBackward0")
WITHIN = ((0, 1), (1, 2))


def blocks(
    *shapes: tuple[str, tuple[str, ...], tuple[tuple[int, int], ...]],
) -> Trace:
    """Modules in a row, each with its type, the names of its nodes, and the edges in it."""
    rows: list[Row] = [Module(0, "", "Net")]
    at, last = 0, NONE
    for number, (kind, names, edges) in enumerate(shapes, 1):
        rows.append(Module(number, f"m{number}", kind, parent=0))
        ids = range(at, at + len(names))
        rows += [Node(id, name, module=number) for id, name in zip(ids, names, strict=True)]
        # Made first, run last: edges lead to nodes that were made before.
        rows += [Edge(ids[-1 - tail], ids[-1 - head], ids[-1 - head]) for tail, head in edges]
        if last != NONE:
            rows.append(Edge(at, 9, last))
        at, last = at + len(names), ids[-1]
    return trace_of(*rows)


def scene_of(trace: Trace, limit: int = 4) -> GraphScene:
    return graph_scene(trace, GraphOptions(color_by=ColorBy.STRUCTURE, limit=limit))


def folded(scene: GraphScene) -> dict[str, Box]:
    found = {box.title: box for box in scene.boxes if box.form is Form.FOLDED}
    assert len(found) == len(scene.boxes)
    return found


def test_the_same_type_nodes_and_edges_are_one_structure() -> None:
    scene = scene_of(blocks(*[("Block", BLOCK, WITHIN)] * 3, ("Head", BLOCK, WITHIN)))
    boxes = folded(scene)

    assert [box.structure for box in boxes.values()].count(0) == 3
    assert boxes["m4 · Head"].structure == NONE
    assert [entry.words for entry in scene.structures] == ["A · Block ×3"]
    says = {
        title: "structure A" in [line.text for line in box.lines] for title, box in boxes.items()
    }
    assert says == {"m1 · Block": True, "m2 · Block": True, "m3 · Block": True, "m4 · Head": False}


def test_other_names_other_edges_or_another_type_are_another_structure() -> None:
    other_names = (*BLOCK[:2], "TanhBackward0")
    scene = scene_of(
        blocks(
            ("Block", BLOCK, WITHIN),
            ("Block", BLOCK, WITHIN),
            ("Block", other_names, WITHIN),
            ("Block", other_names, WITHIN),
            ("Block", BLOCK, (*WITHIN, (0, 2))),
            ("Block", BLOCK, (*WITHIN, (0, 2))),
            ("Cell", BLOCK, WITHIN),
            ("Cell", BLOCK, WITHIN),
        ),
        8,
    )
    numbers = [box.structure for box in folded(scene).values()]

    assert sorted(numbers) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [each.words.partition(" · ")[2] for each in scene.structures].count("Block ×2") == 3


def test_edges_from_outside_do_not_matter() -> None:
    trace = blocks(("Block", BLOCK, WITHIN), ("Block", BLOCK, WITHIN))
    first, second = folded(scene_of(trace, 2)).values()

    assert first.structure == second.structure == 0  # only one of them is led on from


def test_the_most_extensive_structure_has_the_first_letter() -> None:
    small = ("Norm", ("NormBackward0",), ())
    scene = scene_of(blocks(small, ("Block", BLOCK, WITHIN), small, ("Block", BLOCK, WITHIN)), 4)

    assert [entry.words for entry in scene.structures] == ["A · Block ×2", "B · Norm ×2"]


def test_nodes_in_an_open_frame_have_the_color_of_the_frame() -> None:
    scene = scene_of(blocks(("Block", BLOCK, WITHIN), ("Block", BLOCK, WITHIN)), 60)

    assert {group.structure for group in scene.groups} == {0}
    assert all("structure A" in [line.text for line in group.lines] for group in scene.groups)
    assert {box.structure for box in scene.boxes} == {0}
    assert not any(line.text == "structure A" for box in scene.boxes for line in box.lines)


@pytest.mark.parametrize("format", [SVG, DOT])
def test_pictures_show_the_letters_too_for_those_who_see_no_color(format: Format) -> None:
    scene = scene_of(blocks(*[("Block", BLOCK, WITHIN)] * 3, ("Head", BLOCK, WITHIN)))
    text = format.write(scene, LIGHT).content.decode()

    assert text.count(structure_paint(LIGHT, 0).fill) >= 3
    assert text.count("structure A") == 3
    assert "A · Block ×3" in text


def test_without_equal_structures_the_legend_says_so() -> None:
    scene = scene_of(blocks(("Block", BLOCK, WITHIN), ("Head", BLOCK, WITHIN)), 2)

    assert scene.structures == ()
    assert "no structure occurs more than once" in SVG.write(scene, LIGHT).content.decode()


@pytest.mark.parametrize("graph", [GraphOf.BOTH, GraphOf.PLAN])
def test_two_graphs_in_one_picture_have_no_structures(graph: GraphOf) -> None:
    options = GraphOptions(color_by=ColorBy.STRUCTURE, graph=graph)

    with pytest.raises(UsageError, match="--color structure colors one graph"):
        graph_scene(blocks(("Block", BLOCK, WITHIN)), options)


def test_letters_go_on_after_z() -> None:
    assert [letter_of(number) for number in (0, 25, 26, 52)] == ["A", "Z", "A2", "A3"]
    assert len(set(STRUCTURE_KINDS)) == 8
