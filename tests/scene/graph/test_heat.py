from __future__ import annotations

import pytest

from gradscope.scene.choices import ColorBy
from gradscope.scene.graph.graph import graph_scene
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.graph.picture import Box, BoxLine, Scale
from gradscope.scene.kinds import Form
from gradscope.trace.schema import (
    Edge,
    GraphTask,
    Module,
    Node,
    NodeBegin,
    NodeEnd,
    Place,
    Value,
)
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of


def a_slow_node_above_a_module_of_many_quick_ones() -> Trace:
    """One node of 40 ns; a module of four nodes of 25 ns each."""
    begins = {9: 0, **{id: 100 - 10 * id for id in (4, 3, 2, 1)}}
    lasts = {9: 40, **dict.fromkeys((4, 3, 2, 1), 25)}
    clock, rows = 0, []
    for id in begins:
        rows += [
            NodeBegin(task=0, node=id, t=clock),
            NodeEnd(task=0, node=id, t=clock + lasts[id]),
        ]
        clock += 100
    return trace_of(
        Module(0, "", "Model"),
        Module(1, "a", "Block"),
        Node(9, "Slow"),
        *(Node(id, "Quick", module=1) for id in (4, 3, 2, 1)),
        Edge(9, 0, 4),
        *(Edge(id, 0, id - 1) for id in (4, 3, 2)),
        GraphTask(0, roots=(9,)),
        *rows,
        *(Value(id, Place.NODE_INPUT, node=id, task=0, rms=10.0**-id) for id in (1, 2, 3, 4, 9)),
        meta={"level": "values"},
    )


def boxes_by(color_by: ColorBy) -> tuple[Scale | None, dict[str, Box]]:
    scene = graph_scene(
        a_slow_node_above_a_module_of_many_quick_ones(), GraphOptions(color_by=color_by, limit=2)
    )
    assert [box.form for box in scene.boxes] == [Form.FUNCTION, Form.FOLDED]
    return scene.scale, {box.title: box for box in scene.boxes}


def test_a_folded_box_is_as_warm_as_all_that_is_in_it_together() -> None:
    scale, boxes = boxes_by(ColorBy.TIME)

    assert scale == Scale("own time", "0 ns", "100 ns")
    assert boxes["Slow"].heat == pytest.approx(0.4)
    assert boxes["a · Block"].heat == 1.0
    assert BoxLine("ran 100 ns") in boxes["a · Block"].lines


def test_by_gradient_a_folded_box_has_and_names_the_largest_in_it() -> None:
    scale, boxes = boxes_by(ColorBy.GRAD)

    assert scale is not None
    assert (scale.low, scale.high) == ("1e-09", "0.1")
    assert boxes["a · Block"].heat == 1.0
    assert BoxLine("grad rms up to 0.1") in boxes["a · Block"].lines
    assert BoxLine("grad rms 1e-09") in boxes["Slow"].lines
