from __future__ import annotations

from dataclasses import replace

import pytest

from gradscope.analysis.graph.selection import Selection
from gradscope.errors import EmptyTraceError, UnknownNameError
from gradscope.scene.choices import ColorBy, GroupBy
from gradscope.scene.graph.graph import graph_scene
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.graph.picture import Arrow, Box, BoxLine, GraphScene, Group, Scale, Tone
from gradscope.scene.kinds import BoxMark, Form, NodeKind
from gradscope.trace.schema import (
    Edge,
    Frame,
    GraphTask,
    HookBegin,
    Module,
    Node,
    NodeBegin,
    NodeEnd,
    Op,
    Place,
    Row,
    Stack,
    Step,
    Tensor,
    Value,
)
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of
from tests.shared.example_traces import mean_of_squares, nan_in_backward, shared_weight, two_layers

EVERYTHING = GraphOptions(everything=True)
LINEAR = (
    BoxLine("train.py:12", Tone.SITE),
    BoxLine("return F.linear(x, self.weight, self.bias)", Tone.CODE),
)


def ids_of(scene: GraphScene) -> list[str]:
    return [box.id for box in scene.boxes]


def ends_of(scene: GraphScene) -> set[tuple[str, str]]:
    return {(arrow.tail, arrow.head) for arrow in scene.arrows}


def marks_of(scene: GraphScene) -> dict[str, tuple[BoxMark, ...]]:
    return {box.title: box.marks for box in scene.boxes}


def test_the_whole_picture_of_a_small_program() -> None:
    scene = graph_scene(
        trace_of(
            Tensor(0, shape=(), dtype="float32"),
            Tensor(1, shape=(2,), dtype="float32", name="x", leaf=True),
            Node(0, "SumBackward0", sequence_nr=4, inputs=(0,), arguments='{"dim": [0]}'),
            Node(1, "AccumulateGrad", sequence_nr=-1, inputs=(1,)),
            Edge(0, 0, 1, 0),
            GraphTask(0, roots=(0,)),
            meta={"script": "/home/me/ex.py"},
        )
    )

    assert scene == GraphScene(
        title="ex.py · backward graph",
        notes=(),
        boxes=(
            Box(
                id="n0",
                form=Form.FUNCTION,
                title="SumBackward0",
                ordinal="",
                kind=NodeKind.REDUCTION,
                lines=(),
                marks=(BoxMark.ROOT,),
                heat=None,
                group="",
                tooltip=("SumBackward0 (node 0)", "sequence_nr 4", "with dim=(0,)"),
                nodes=(0,),
            ),
            Box(
                id="n1",
                form=Form.LEAF,
                title="x",
                ordinal="",
                kind=NodeKind.LEAF,
                lines=(BoxLine("[2] float32"),),
                marks=(),
                heat=None,
                group="",
                tooltip=("AccumulateGrad (node 1)",),
                nodes=(1,),
            ),
        ),
        arrows=(Arrow("n0", "n1", "[2]", Form.FUNCTION),),
        groups=(),
        color_by=ColorBy.KIND,
        scale=None,
        kinds=(NodeKind.LEAF, NodeKind.REDUCTION),
        forms=(Form.FUNCTION, Form.LEAF),
        marks=(BoxMark.ROOT,),
    )


def test_a_box_tells_its_source_line_and_when_it_ran() -> None:
    boxes = {box.title + box.ordinal: box for box in graph_scene(mean_of_squares()).boxes}

    assert boxes["MulBackward0#2"].lines == (
        BoxLine("ex.py:5", Tone.SITE),
        BoxLine("z = y * y * 3", Tone.CODE),
        BoxLine("ran 2nd, 6.50 µs"),
    )


def test_an_arrow_says_which_output_where_there_are_several_and_the_shape_where_it_changes() -> (
    None
):
    scene = graph_scene(mean_of_squares())

    assert [(arrow.tail, arrow.head, arrow.label) for arrow in scene.arrows] == [
        ("n0", "n1", ""),
        ("n2", "n0", "out 0"),
        ("n2", "n0", "out 1"),
        ("n3", "n2", ""),
        ("n4", "n3", "[2, 2]"),
    ]


def test_tensors_adds_every_shape() -> None:
    scene = graph_scene(mean_of_squares(), GraphOptions(tensors=True))

    assert [arrow.label for arrow in scene.arrows] == [
        "[2, 2]",
        "out 0 · [2, 2]",
        "out 1 · [2, 2]",
        "[2, 2]",
        "[2, 2]",
    ]
    assert BoxLine("scalar float32") in scene.boxes[0].lines


def test_saved_adds_what_each_node_keeps() -> None:
    scene = graph_scene(mean_of_squares(), GraphOptions(saved=True))
    saved = [box for box in scene.boxes if box.form is Form.SAVED]

    assert [(box.title, box.lines) for box in saved] == [
        ("self", (BoxLine("[2, 2] float32"), BoxLine("16 bytes"))),
        ("other", (BoxLine("[2, 2] float32"), BoxLine("16 bytes"))),
    ]
    assert Arrow("n2", "s0", "", Form.SAVED) in scene.arrows


# Leaves --------------------------------------------------------------------------------------


def test_a_shared_leaf_is_drawn_beside_each_of_its_users() -> None:
    scene = graph_scene(shared_weight(3))
    uses = [box for box in scene.boxes if box.title == "w"]

    assert [(box.id, box.lines[1].text) for box in uses] == [
        ("n1u3", "use 3 of 3"),
        ("n1u2", "use 2 of 3"),
        ("n1u1", "use 1 of 3"),
    ]
    assert {box.nodes for box in uses} == {(1,)}
    assert {arrow.tail for arrow in scene.arrows if arrow.head == "n1u2"} == {"n4"}


def test_merged_a_shared_leaf_is_one_box() -> None:
    scene = graph_scene(shared_weight(3), GraphOptions(merge_leaves=True))

    assert [(box.id, box.lines[1].text) for box in scene.boxes if box.title == "w"] == [
        ("n1", "used 3 times")
    ]
    assert sum(arrow.head == "n1" for arrow in scene.arrows) == 3


def test_a_leaf_used_twice_by_one_node_is_one_box_with_two_arrows() -> None:
    trace = trace_of(
        Node(0, "MulBackward0"), Node(1, "AccumulateGrad"), Edge(0, 0, 1), Edge(0, 1, 1)
    )

    scene = graph_scene(trace)

    assert ids_of(scene) == ["n0", "n1"]
    assert scene.boxes[1].form is Form.LEAF
    assert [arrow.label for arrow in scene.arrows] == ["out 0", "out 1"]


def test_a_leaf_that_backward_starts_from_is_drawn() -> None:
    trace = trace_of(
        Node(0, "AccumulateGrad", inputs=(0,)), Tensor(0, leaf=True), GraphTask(0, roots=(0,))
    )

    assert [(box.title, box.marks) for box in graph_scene(trace).boxes] == [
        ("leaf 0", (BoxMark.ROOT,))
    ]


# Groups and folding --------------------------------------------------------------------------


def test_boxes_are_grouped_by_the_calls_of_modules() -> None:
    scene = graph_scene(two_layers())
    groups = {box.title + box.ordinal: box.group for box in scene.boxes}

    assert scene.groups == (
        Group("layers1/1", "layers1 · Block", ""),
        Group("layers1.linear/1", "layers1.linear · Linear", "layers1/1", LINEAR),
        Group("layers0/1", "layers0 · Block", ""),
        Group("layers0.linear/1", "layers0.linear · Linear", "layers0/1", LINEAR),
    )
    assert groups["ReluBackward0#2"] == "layers1/1"
    assert groups["layers1.linear.weight"] == "layers1.linear/1"
    assert groups["MeanBackward0"] == ""


def test_of_a_long_path_a_title_has_the_end() -> None:
    trace = trace_of(
        Module(0, "task.trainable_module.layer4.0.downsample", "Sequential"),
        Module(1, "task.trainable_module.layer4.0.downsample.1", "BatchNorm2d", parent=0),
        *(Node(n, f"{name}Backward0", module=1) for n, name in enumerate(["Add", "Mul"])),
        Edge(1, 0, 0, 0),
    )

    (frame,) = graph_scene(trace).groups

    assert frame.title == (
        "…layer4.0.downsample · Sequential › …layer4.0.downsample.1 · BatchNorm2d"
    )


def test_without_groups_nothing_is_framed() -> None:
    scene = graph_scene(two_layers(), GraphOptions(group_by=GroupBy.NONE))

    assert scene.groups == ()
    assert {box.group for box in scene.boxes} == {""}


def test_blocks_are_opened_while_no_more_boxes_stand_than_there_may_be() -> None:
    scene = graph_scene(two_layers(layers=3), GraphOptions(limit=10))
    folded = [box for box in scene.boxes if box.form is Form.FOLDED]

    assert len(scene.boxes) == 8
    (note,) = scene.notes
    assert note.startswith("7 nodes folded into 3 boxes; --expand NAME opens one, --limit N more")
    assert [(box.title, box.lines[0].text) for box in folded] == [
        ("layers2 · Block", "3 nodes, 2 leaves"),
        ("layers1.linear · Linear", "2 nodes, 2 leaves"),
        ("layers0.linear · Linear", "2 nodes, 2 leaves"),
    ]
    assert ("n15", "m:layers2/1") in ends_of(scene)
    assert ("m:layers2/1", "n9") in ends_of(scene)


def test_where_nothing_may_be_opened_everything_stays_folded() -> None:
    scene = graph_scene(two_layers(layers=3), GraphOptions(limit=6))

    assert [box.title for box in scene.boxes if box.form is Form.FOLDED] == [
        "layers2 · Block",
        "layers1 · Block",
        "layers0 · Block",
    ]


def test_an_expanded_module_stays_open() -> None:
    options = GraphOptions(limit=10, expand=("layers1",))

    titles = [box.title for box in graph_scene(two_layers(layers=3), options).boxes]

    assert "layers1.linear.weight" in titles
    assert "layers0 · Block" in titles


def test_a_module_that_is_to_stay_folded_stays_so() -> None:
    options = GraphOptions(fold=("layers1",))

    assert [box.title for box in graph_scene(two_layers(), options).boxes[3:]] == [
        "layers1 · Block",
        "ReluBackward0",
        "AddmmBackward0",
        "layers0.linear.bias",
        "TBackward0",
        "layers0.linear.weight",
    ]


def test_a_name_that_is_not_there_is_answered_with_those_that_are_near() -> None:
    for options in (GraphOptions(expand=("layers7",)), GraphOptions(fold=("layers7",))):
        with pytest.raises(UnknownNameError, match="did you mean layers1, layers0, "):
            graph_scene(two_layers(), options)


def test_what_failed_is_opened_first_and_then_what_took_long() -> None:
    def opened(*more: Row) -> set[str]:
        events = [
            row(task=0, node=node, t=100 * node + took * (row is NodeEnd))
            for node, took in ((1, 50), (3, 90), (5, 10))
            for row in (NodeBegin, NodeEnd)
        ]
        trace = trace_of(
            *(Module(id, name, "Block") for id, name in enumerate("abc")),
            *(Node(id, f"N{id}", module=id // 2) for id in range(6)),
            *(Edge(id + 1, 0, id) for id in range(5)),
            *events,
            *more,
        )
        return {box.title for box in graph_scene(trace, GraphOptions(limit=4)).boxes}

    assert opened() == {"a · Block", "N2", "N3", "c · Block"}
    assert opened(NodeEnd(task=0, node=5, failed=True)) == {"a · Block", "b · Block", "N4", "N5"}


def test_a_node_in_focus_is_never_folded_away() -> None:
    options = GraphOptions(limit=5, selection=Selection(around="AddmmBackward0#2", hops=9))

    assert "AddmmBackward0" in [box.title for box in graph_scene(two_layers(), options).boxes]


def test_what_does_not_fit_is_left_out_and_said() -> None:
    chain = trace_of(
        *(Node(id, f"N{id}") for id in range(80)), *(Edge(id, 0, id + 1) for id in range(79))
    )

    scene = graph_scene(chain, GraphOptions(limit=50))

    assert len(scene.boxes) == 50
    assert scene.notes == ("showing 50 of 80 nodes; use --around NODE, --step N or --all",)
    assert scene.boxes[0].title == "N0"


def test_all_leaves_nothing_out() -> None:
    scene = graph_scene(shared_weight(200), replace(EVERYTHING, limit=50))

    assert scene.notes == ()
    assert len(scene.boxes) == 401 + 200 + 1


def test_every_arrow_joins_two_boxes_that_are_drawn() -> None:
    for limit in range(1, 30):
        scene = graph_scene(two_layers(layers=3), GraphOptions(limit=limit, saved=True))
        assert {end for ends in ends_of(scene) for end in ends} <= set(ids_of(scene)), limit
        assert len(set(ids_of(scene))) == len(scene.boxes), limit


# Which part ----------------------------------------------------------------------------------


def test_of_several_steps_the_first_is_drawn_and_the_others_are_mentioned() -> None:
    scene = graph_scene(two_layers(steps=3))

    assert scene.title == "train.py · step 0"
    assert scene.notes == ("step 0 of 3; use --step N for another one, --all for all of them",)
    assert len(scene.boxes) == 13


def test_of_several_backwards_in_a_large_trace_the_first_is_drawn() -> None:
    nodes = [Node(id, "Mul") for id in range(20)]
    tasks = [GraphTask(id, roots=(id,)) for id in range(20)]

    scene = graph_scene(trace_of(*nodes, *tasks), GraphOptions(limit=10))

    assert ids_of(scene) == ["n0"]
    assert scene.notes == ("backward 0 of 20; use --task N for another one, --all for all of them",)


def test_the_title_says_which_part_is_drawn() -> None:
    def title(**chosen: int | str) -> str:
        return graph_scene(two_layers(2), GraphOptions(selection=Selection(**chosen))).title

    assert title(step=1) == "train.py · step 1"
    assert title(backward=0) == "train.py · backward 0 at train.py:32"
    assert title(around="MeanBackward0#2", hops=1) == "train.py · 1 hop around MeanBackward0#2"
    assert title(around="0") == "train.py · 2 hops around TBackward0#1"


def test_a_box_at_the_edge_says_that_the_graph_goes_on() -> None:
    options = GraphOptions(selection=Selection(around="MulBackward0#1", hops=0))

    (box,) = graph_scene(mean_of_squares(), options).boxes

    assert box.marks == (BoxMark.FOCUS,)
    assert box.lines[-1] == BoxLine("⋯ 3 edges to nodes not shown")


def test_a_trace_without_nodes_has_no_picture() -> None:
    with pytest.raises(EmptyTraceError, match="nothing in the recording required a gradient"):
        graph_scene(trace_of())


# Marks ---------------------------------------------------------------------------------------


def test_births_and_what_they_spread_to_are_marked() -> None:
    assert marks_of(graph_scene(nan_in_backward())) == {
        "SumBackward0": (BoxMark.ROOT,),
        "SqrtBackward0": (BoxMark.INF_BORN,),
        "PowBackward0": (BoxMark.NAN_BORN,),
        "x": (BoxMark.NON_FINITE,),
    }


def test_a_birth_in_the_forward_pass_is_marked_at_the_node_its_call_made() -> None:
    trace = trace_of(
        Tensor(0),
        Op(0, "log", inputs=(), outputs=(0,), node=3),
        Node(3, "LogBackward0", op=0),
        Value(0, Place.OP_OUTPUT, op=0, tensor=0, nan=1),
        meta={"level": "values"},
    )

    (box,) = graph_scene(trace).boxes

    assert box.marks == (BoxMark.NAN_BORN,)
    assert box.lines == (BoxLine("NaN in the forward pass", Tone.ALARM),)


def test_a_mask_of_minus_inf_is_nothing_to_be_marked() -> None:
    trace = trace_of(
        Op(0, "masked_fill.Scalar", outputs=(0,), node=3),
        Node(3, "MaskedFillBackward0", op=0),
        Value(0, Place.OP_OUTPUT, op=0, tensor=0, neginf=1),
        meta={"level": "values"},
    )

    assert marks_of(graph_scene(trace)) == {"MaskedFillBackward0": ()}


def test_a_birth_in_another_step_is_not_marked() -> None:
    trace = trace_of(
        Step(0, number=0),
        Step(1, number=1),
        *(Node(id, "Mul", step=id) for id in range(2)),
        *(GraphTask(id, roots=(id,), step=id) for id in range(2)),
        Node(2, "AccumulateGrad", step=0),
        Edge(0, 0, 2),
        Edge(1, 0, 2),
        Value(0, Place.HOOK, node=2, task=1, nan=1),
        meta={"level": "values"},
    )

    def marks(step: int) -> tuple[BoxMark, ...]:
        scene = graph_scene(trace, GraphOptions(selection=Selection(step=step)))
        return scene.boxes[-1].marks

    assert marks(0) == ()
    assert marks(1) == (BoxMark.NAN_BORN,)


def test_what_raised_what_was_hooked_and_what_did_not_run_are_marked() -> None:
    trace = trace_of(
        Node(0, "A"),
        Node(1, "B"),
        Node(2, "C"),
        Edge(0, 0, 1),
        Edge(1, 0, 2),
        NodeBegin(task=0, node=0),
        HookBegin(task=0, node=0),
        NodeEnd(task=0, node=0),
        NodeBegin(task=0, node=1),
        NodeEnd(task=0, node=1, failed=True),
    )

    assert marks_of(graph_scene(trace)) == {
        "A": (BoxMark.HOOKED,),
        "B": (BoxMark.FAILED,),
        "C": (BoxMark.NOT_RUN,),
    }


def test_without_events_of_the_engine_nobody_can_say_what_did_not_run() -> None:
    assert marks_of(graph_scene(trace_of(Node(0, "A")))) == {"A": ()}


def test_what_a_double_backward_made_is_framed() -> None:
    trace = trace_of(
        Node(0, "A"), Node(1, "B", task=0), Node(2, "C", task=0), GraphTask(0, create_graph=True)
    )

    scene = graph_scene(trace)

    assert scene.groups == (Group("backward0", "created during backward 0 (create_graph)", ""),)
    assert [box.group for box in scene.boxes] == ["", "backward0", "backward0"]


def test_a_frame_around_one_node_is_left_out_and_the_node_says_what_it_said() -> None:
    trace = trace_of(Module(0, "act", "ReLU"), Node(0, "ReluBackward0", module=0), Node(1, "Sum"))

    scene = graph_scene(trace)

    assert scene.groups == ()
    assert scene.boxes[0].lines == (BoxLine("act · ReLU"),)


def test_a_frame_around_one_frame_is_one_with_it() -> None:
    paths = ("net", "net.layers", "net.layers.0")
    trace = trace_of(
        *(Module(id, path, "Net", parent=id - 1) for id, path in enumerate(paths)),
        *(Node(id, f"N{id}", module=2) for id in range(2)),
    )

    assert [(group.title, group.parent) for group in graph_scene(trace).groups] == [
        ("net · Net › net.layers · Net › net.layers.0 · Net", "")
    ]


def test_of_several_steps_the_way_to_a_leaf_is_that_of_the_first() -> None:
    options = GraphOptions(selection=Selection(path_to="layers0.linear.bias"))

    scene = graph_scene(two_layers(steps=3), options)

    assert scene.title == "train.py · step 0 · path to layers0.linear.bias"
    assert len([box for box in scene.boxes if box.title == "MeanBackward0"]) == 1


def test_a_line_that_most_boxes_share_stands_above_the_picture() -> None:
    frames = [
        row
        for id, text in enumerate(("loss = model(x).sum()", "y = x * 2"))
        for row in (Frame(id, "train.py", 4 + id, "f", text), Stack(id, id))
    ]
    names = ("Sum", "Tanh", "Addmm", "T", "Mul")
    nodes = [Node(id, name, stack=int(name == "Mul")) for id, name in enumerate(names)]

    scene = graph_scene(trace_of(*frames, *nodes))

    assert [line.text for line in scene.lines] == ["train.py:4", "loss = model(x).sum()"]
    assert [[line.text for line in box.lines] for box in scene.boxes] == [
        *([],) * 4,
        ["train.py:5", "y = x * 2"],
    ]
    assert graph_scene(trace_of(*frames, *nodes, Node(9, "Sub"))).lines == ()


# Colours -------------------------------------------------------------------------------------


def test_by_time_the_slowest_node_is_the_warmest() -> None:
    scene = graph_scene(mean_of_squares(), GraphOptions(color_by=ColorBy.TIME))

    assert scene.scale == Scale("own time", "0 ns", "7.50 µs")
    assert {box.title + box.ordinal: box.heat for box in scene.boxes} == {
        "MeanBackward0": 1.0,
        "MulBackward0#2": 6_500 / 7_500,
        "MulBackward0#1": 5_500 / 7_500,
        "AddBackward0": 3_500 / 7_500,
        "x": 5_000 / 7_500,
    }


def test_by_gradient_the_largest_is_the_warmest_on_a_logarithmic_scale() -> None:
    trace = trace_of(
        *(Node(id, "Mul") for id in range(4)),
        *(Value(id, Place.NODE_INPUT, node=id, rms=rms) for id, rms in enumerate([1, 0.1, 0.01])),
        meta={"level": "values"},
    )

    scene = graph_scene(trace, GraphOptions(color_by=ColorBy.GRAD))

    assert scene.scale == Scale("size of the gradient (rms, logarithmic)", "0.01", "1")
    assert [box.heat for box in scene.boxes] == [1.0, 0.5, 0.0, None]
    assert scene.boxes[1].lines == (BoxLine("grad rms 0.1"),)


@pytest.mark.parametrize(
    ("color_by", "level"), [(ColorBy.TIME, "engine"), (ColorBy.GRAD, "values")]
)
def test_a_colour_that_the_trace_cannot_tell_names_the_level_that_could(
    color_by: ColorBy, level: str
) -> None:
    trace: Trace = trace_of(Node(0, "Mul"))

    with pytest.raises(EmptyTraceError, match=f"record it with --level {level}"):
        graph_scene(trace, GraphOptions(color_by=color_by))
