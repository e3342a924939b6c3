"""Several backwards in one picture; and nodes that took part without running."""

from __future__ import annotations

from gradscope.render.looks import backward_signs
from gradscope.render.theme import LIGHT, backward_colour
from gradscope.scene.graph.graph import graph_scene
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.graph.picture import Arrow, BackwardEntry, BoxLine, GraphScene
from gradscope.scene.kinds import BoxMark, Form
from gradscope.trace.schema import (
    NONE,
    Capture,
    Edge,
    Frame,
    GraphTask,
    Node,
    NodeBegin,
    NodeEnd,
    Row,
    Stack,
)
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of
from tests.shared.example_traces import mean_of_squares, two_layers


def ran(task: int, *nodes: int) -> list[Row]:
    return [
        row(task=task, node=node, t=1000 * task + 10 * place + 5 * (row is NodeEnd))
        for place, node in enumerate(nodes)
        for row in (NodeBegin, NodeEnd)
    ]


def two_losses_over_one_layer(*more: Row) -> Trace:
    """Node 3 leads to 1 and 4 to 1, and 1 to the leaf 0; each has its backward."""
    return trace_of(
        Frame(0, "gan.py", 8, "<module>", "loss_d.backward()"),
        Frame(1, "gan.py", 10, "<module>", "loss_g.backward()"),
        Stack(0, 0),
        Stack(1, 1),
        Node(0, "AccumulateGrad", NONE),
        Node(1, "Tanh"),
        Node(3, "LossD"),
        Node(4, "LossG"),
        *(Edge(a, 0, b) for a, b in ((1, 0), (3, 1), (4, 1))),
        GraphTask(10, roots=(3,), stack=0, begin=1),
        GraphTask(20, roots=(4,), stack=1, begin=2),
        *ran(10, 3, 1, 0),
        *ran(20, 4, 1, 0),
        *more,
    )


def test_each_box_and_arrow_says_which_backward_it_belongs_to() -> None:
    scene = graph_scene(two_losses_over_one_layer())

    assert scene.backwards == (
        BackwardEntry(0, "backward 0 at gan.py:8", "loss_d.backward()"),
        BackwardEntry(1, "backward 1 at gan.py:10", "loss_g.backward()"),
    )
    lines = {
        box.title: [line for line in box.lines if line.backward != NONE] for box in scene.boxes
    }
    assert lines == {
        "LossD": [BoxLine("backward 0: ran 1st, 5 ns", backward=0)],
        "LossG": [BoxLine("backward 1: ran 1st, 5 ns", backward=1)],
        "Tanh": [
            BoxLine("backward 0: ran 2nd, 5 ns", backward=0),
            BoxLine("backward 1: ran 2nd, 5 ns", backward=1),
        ],
        "leaf": [
            BoxLine("backward 0: ran 3rd, 5 ns", backward=0),
            BoxLine("backward 1: ran 3rd, 5 ns", backward=1),
        ],
    }
    assert {(arrow.tail, arrow.head): arrow.backwards for arrow in scene.arrows} == {
        ("n3", "n1"): (0,),
        ("n4", "n1"): (1,),
        ("n1", "n0"): (0, 1),
    }


def test_one_backward_needs_no_number() -> None:
    scene = graph_scene(mean_of_squares())

    assert scene.backwards == ()
    assert {arrow.backwards for arrow in scene.arrows} == {()}


def test_a_use_of_a_leaf_belongs_to_the_backward_of_the_node_beside_it() -> None:
    scene = graph_scene(two_layers(steps=2), GraphOptions(everything=True))
    uses = [box for box in scene.boxes if box.title == "layers0.linear.weight"]

    assert [[line.backward for line in box.lines if line.backward != NONE] for box in uses] == [
        [0],
        [1],
    ]


def test_more_backwards_than_a_box_can_name_are_counted() -> None:
    nodes = 12
    trace = trace_of(
        Node(0, "Shared"),
        *(Node(id + 1, f"Loss{id}") for id in range(nodes)),
        *(Edge(id + 1, 0, 0) for id in range(nodes)),
        *(GraphTask(id, roots=(id + 1,), begin=id) for id in range(nodes)),
        *(row for id in range(nodes) for row in ran(id, id + 1, 0)),
    )
    scene = graph_scene(trace)
    shared = next(box for box in scene.boxes if box.title == "Shared")

    assert BoxLine("in 12 backwards, ran 12 times, 60 ns") in shared.lines
    (entry,) = scene.backwards
    assert entry == BackwardEntry(0, "backwards 0 to 11", "", others=tuple(range(1, 12)))
    assert scene.notes == ()


def losses(*lines: int) -> GraphScene:
    """Backwards from one line or another, in this order."""
    many = range(len(lines))
    return graph_scene(
        trace_of(
            *(Frame(line, "maml.py", line, "", f"loss{line}.backward()") for line in set(lines)),
            *(Stack(line, line) for line in set(lines)),
            Node(0, "Shared"),
            *(Node(id + 1, f"Loss{id}") for id in many),
            *(Edge(id + 1, 0, 0) for id in many),
            *(GraphTask(id, roots=(id + 1,), begin=id, stack=lines[id]) for id in many),
            *(row for id in many for row in ran(id, id + 1, 0)),
        )
    )


def test_backwards_that_one_line_called_one_after_the_other_share_a_row_of_the_legend() -> None:
    scene = losses(3, 3, 3, 8, 3)

    assert scene.backwards == (
        BackwardEntry(0, "backwards 0 to 2 at maml.py:3", "loss3.backward()", others=(1, 2)),
        BackwardEntry(3, "backward 3 at maml.py:8", "loss8.backward()"),
        BackwardEntry(4, "backward 4 at maml.py:3", "loss3.backward()"),
    )
    first = backward_signs(scene.backwards[0], LIGHT)
    colours = [backward_colour(LIGHT, number) for number in range(3)]
    assert first == (*(("■", colour) for colour in colours), ("→", colours[0]))


def test_a_legend_has_few_rows_and_says_how_many_backwards_it_leaves_out() -> None:
    scene = losses(*(3 + number % 2 for number in range(12)))

    assert [entry.number for entry in scene.backwards] == list(range(8))
    assert scene.notes == ("12 backwards, the legend shows 8 of them; --task N draws one",)


def test_a_node_whose_gradient_was_asked_for_is_not_called_not_run() -> None:
    trace = trace_of(
        Node(0, "AccumulateGrad", NONE),
        Node(1, "AccumulateGrad", NONE),
        Node(2, "Mul"),
        Edge(2, 0, 0),
        Edge(2, 1, 1),
        GraphTask(0, roots=(2,)),
        *ran(0, 2),
        Capture(task=0, node=0),
    )

    marks = {box.id: box.marks for box in graph_scene(trace).boxes}

    assert marks == {"n2": (BoxMark.ROOT,), "n0": (BoxMark.CAPTURED,), "n1": (BoxMark.NOT_RUN,)}


def test_the_node_of_a_write_through_a_view_ran_inside_copy_slices_and_hangs_on_it() -> None:
    trace = trace_of(
        Node(1, "MulBackward0", 0),
        Node(2, "SelectBackward0", 1),
        Node(3, "MulBackward0", 2),
        Node(4, "CopySlices", 3),
        *(Edge(a, 0, b) for a, b in ((2, 1), (3, 2), (4, 1))),
        GraphTask(0, roots=(4,)),
        *ran(0, 4, 1),
    )
    scene = graph_scene(trace)
    boxes = {box.id: box for box in scene.boxes}

    assert {id: box.marks for id, box in boxes.items()} == {
        "n4": (BoxMark.ROOT,),
        "n3": (BoxMark.INSIDE,),
        "n2": (BoxMark.NOT_RUN,),
        "n1": (),
    }
    assert BoxLine("runs inside CopySlices") in boxes["n3"].lines
    assert Arrow("n4", "n3", "runs", Form.SAVED) in scene.arrows
