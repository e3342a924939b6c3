"""The picture of a forward graph: what is drawn, what it says, and what it says is missing."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from gradscope.analysis.graph.selection import Selection
from gradscope.errors import EmptyTraceError, UnknownNameError, UsageError
from gradscope.scene.choices import ColorBy, GraphOf
from gradscope.scene.graph.graph import graph_scene
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.graph.picture import Arrow, Box, BoxLine, GraphScene, Tone
from gradscope.scene.kinds import BoxMark, Form
from gradscope.trace.load_save import load
from gradscope.trace.schema import (
    Edge,
    GraphTask,
    Module,
    Node,
    Op,
    Phase,
    Row,
    Saved,
    Step,
    Tensor,
    Version,
    Why,
)
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of

GALLERY = Path(__file__).parents[4] / "docs" / "gallery"
FORWARD = GraphOptions(graph=GraphOf.FORWARD)


def small() -> Trace:
    """w * x, relu in place, and its mean; and a call on data."""
    return trace_of(
        Tensor(0, (2,), dtype="float32", name="w", storage=0, leaf=True, requires_grad=True),
        Tensor(1, (2,), dtype="float32", name="x", storage=1),
        Tensor(2, (2,), dtype="float32", storage=2),
        Tensor(3, (), dtype="float32", storage=3),
        Tensor(4, (2,), dtype="float32", storage=4),
        Op(0, "mul", begin=0, end=1_000, inputs=(0, 1), outputs=(2,), node=1),
        Op(1, "relu_", begin=2_000, end=2_500, inputs=(2,), outputs=(2,), node=2),
        Op(2, "mean", begin=3_000, end=3_100, inputs=(2,), outputs=(3,), node=3),
        Op(3, "neg", begin=4_000, end=4_100, inputs=(1,), outputs=(4,), why=Why.NO_GRAD),
        Version(storage=2, tensor=2, old=0, new=1, op=1),
        Node(0, "AccumulateGrad", inputs=(0,)),
        Node(1, "MulBackward0", op=0),
        Node(2, "ReluBackward0", op=1),
        Node(3, "MeanBackward0", op=2),
        Edge(3, 0, 2),
        Edge(2, 0, 1),
        Edge(1, 0, 0),
        Saved(0, node=1, slot="other", tensor=1, bytes=8),
        Saved(1, node=2, slot="result", tensor=2, version=1, bytes=8),
        GraphTask(0, roots=(3,)),
    )


def lines_of(scene: GraphScene, title: str) -> list[str]:
    (box,) = (box for box in scene.boxes if box.title == title)
    return [line.text for line in box.lines]


def ends_of(scene: GraphScene) -> set[tuple[str, str]]:
    titles = {box.id: box.title for box in scene.boxes}
    return {(titles[arrow.tail], titles[arrow.head]) for arrow in scene.arrows}


def called(scene: GraphScene) -> list[int]:
    return sorted(call for box in scene.boxes for call in box.calls)


def test_tensors_go_from_data_to_call_to_call() -> None:
    scene = graph_scene(small(), FORWARD)

    assert [(box.title, box.form) for box in scene.boxes] == [
        ("w", Form.LEAF), ("x", Form.DATA), ("mul", Form.OPERATION), ("relu_", Form.OPERATION),
        ("mean", Form.OPERATION), ("x", Form.DATA), ("neg", Form.OPERATION),
    ]  # fmt: skip
    assert ends_of(scene) == {
        ("w", "mul"), ("x", "mul"), ("mul", "relu_"), ("relu_", "mean"), ("x", "neg"),
    }  # fmt: skip
    assert {arrow.form for arrow in scene.arrows} == {Form.OPERATION}
    assert scene.title == "forward graph"


def test_a_call_says_what_its_node_keeps_what_it_wrote_and_why_it_made_no_node() -> None:
    scene = graph_scene(small(), FORWARD)

    assert lines_of(scene, "mul") == ["[2] float32 · 1.00 µs", "MulBackward0 saves other: 8 bytes"]
    assert lines_of(scene, "relu_") == [
        "[2] float32 · 500 ns", "version 0 → 1", "ReluBackward0 saves result: 8 bytes",
    ]  # fmt: skip
    assert lines_of(scene, "mean") == ["scalar float32 · 100 ns", "created MeanBackward0"]
    assert lines_of(scene, "neg") == ["[2] float32 · 100 ns", "no node: grad mode was off"]
    marks = {box.title: box.marks for box in scene.boxes if box.marks}
    assert marks == {"relu_": (BoxMark.WRITES,)}


def test_what_was_written_to_after_it_was_kept_is_an_alarm() -> None:
    late = Op(4, "mul_", begin=5_000, inputs=(1,), outputs=(1,))
    write = Version(storage=1, tensor=1, old=0, new=1, op=4, t=5_000)
    trace = trace_of(*rows_of(small()), late, write)
    scene = graph_scene(trace, GraphOptions(graph=GraphOf.FORWARD, saved=True))

    assert "x: version 0 → 1" in lines_of(scene, "mul_")
    alarms = {
        box.title: line.text for box in scene.boxes for line in box.lines if line.tone is Tone.ALARM
    }
    assert alarms == {
        "mul": "other: modified since it was saved",
        "other": "modified since it was saved",
    }
    assert Arrow("c0", "s0", "", Form.SAVED) in scene.arrows


def rows_of(trace: Trace) -> list[Row]:
    kinds = (Tensor, Op, Version, Node, Edge, Saved, GraphTask)
    return [row for kind in kinds for row in trace.rows(kind)]


def test_a_program_without_gradients_is_drawn_and_it_is_said() -> None:
    trace = trace_of(
        Op(0, "mul", begin=0, inputs=(0,), outputs=(1,), why=Why.INFERENCE),
        Op(1, "sum", begin=1, inputs=(1,), outputs=(2,), why=Why.INFERENCE),
    )
    scene = graph_scene(trace)

    assert ends_of(scene) == {("data", "mul"), ("mul", "sum")}
    assert scene.notes == (
        "nothing in the recording required a gradient: this is the forward graph",
        "no call here created a node",
    )
    assert scene.graph is GraphOf.FORWARD
    for graph in (GraphOf.BACKWARD, GraphOf.BOTH):
        with pytest.raises(EmptyTraceError, match="--graph forward draws what was computed"):
            graph_scene(trace, GraphOptions(graph=graph))


def test_without_calls_it_is_said_which_level_and_engine_tells_of_them() -> None:
    with pytest.raises(EmptyTraceError, match=r"`gradscope trace --level full 'a b.py' -n 3`"):
        meta = {"script": "a b.py", "arguments": ["-n", "3"]}
        graph_scene(trace_of(Node(0, "MulBackward0"), meta=meta), FORWARD)
    filled = trace_of(
        Tensor(0, leaf=True, requires_grad=True),
        Op(0, "uniform_", inputs=(0,), outputs=(0,)),
        Version(tensor=0, op=0),
    )
    with pytest.raises(EmptyTraceError, match=r"fill parameters or data .*--all draws them"):
        graph_scene(filled, FORWARD)
    assert called(graph_scene(filled, GraphOptions(graph=GraphOf.FORWARD, everything=True))) == [0]


def test_what_a_trace_of_pytorch_lacks_is_said() -> None:
    meta = {"level": "graph", "inferred": ["op.inputs"], "absent": ["version", "op.why"]}
    trace = trace_of(Op(0, "mul", outputs=(0,), node=0), Node(0, "MulBackward0"), meta=meta)

    inferred, missing, writes, kept = graph_scene(trace, FORWARD).notes

    assert inferred.startswith("inputs of calls are inferred from the backward graph")
    assert missing.startswith(
        "calls that created no node are missing: PyTorch reports the names only at level full"
    )
    assert writes == "in-place writes are not in this trace; --level engine records them"
    assert kept == "saved values are not in this trace; --level engine records them"


def test_calls_of_unknown_operands_stand_in_the_order_in_which_they_began() -> None:
    trace = trace_of(Op(0, "linear"), Op(1, "relu", begin=1), meta={"level": "full"})

    scene = graph_scene(trace, FORWARD)

    assert scene.arrows == (Arrow("c0", "c1", "", Form.ORDER),)
    assert scene.notes[0].startswith("the inputs of 2 calls were not recorded")


def test_such_calls_are_left_out_where_others_tell_and_it_is_said() -> None:
    trace = trace_of(Op(0, "empty"), Op(1, "relu", begin=1, inputs=(0,), outputs=(1,)))

    scene = graph_scene(trace, FORWARD)

    assert called(scene) == [1]
    assert scene.notes[0].startswith("not drawn: 1 call whose inputs were not recorded")
    assert called(graph_scene(trace, replace(FORWARD, everything=True))) == [0, 1]


def test_what_a_hook_packed_has_no_size_and_is_said_to_be_packed() -> None:
    trace = trace_of(
        Op(0, "exp", inputs=(0,), outputs=(1,), node=0),
        Node(0, "ExpBackward0", op=0),
        Saved(0, node=0, slot="result", hooked=True),
    )

    assert lines_of(graph_scene(trace, FORWARD), "exp")[-1] == (
        "ExpBackward0 saves result: packed by a hook"
    )


def test_a_module_that_was_called_in_a_backward_says_so_even_if_folded() -> None:
    """As what a checkpoint computes again."""
    trace = trace_of(
        Module(0, "", "Net"),
        Module(1, "a", "Linear", 0),
        *(Op(at, "mul", begin=at, inputs=(at,), outputs=(at + 1,), module=1, task=at // 2 - 1)
          for at in range(4)),
        GraphTask(0),
    )  # fmt: skip
    scene = graph_scene(trace, replace(FORWARD, limit=2))

    assert [(box.title, box.lines[0].text) for box in scene.boxes] == [
        ("a · Linear · call 1 of 2", "2 calls, 1 input tensor"),
        ("a · Linear · call 2 of 2", "ran in backward 0"),
    ]


def test_layers_of_double_backward_are_frames_that_say_which_derivative() -> None:
    trace = trace_of(
        Op(0, "pow", begin=0, inputs=(0,), outputs=(1,), node=1),
        *(Op(1 + n, "mul", begin=1 + n, inputs=(1,), outputs=(2 + n,), node=2 + n, task=0)
          for n in (0, 1)),
        *(Op(3 + n, "mul", begin=3 + n, inputs=(2,), outputs=(4 + n,), node=4 + n, task=1)
          for n in (0, 1)),
        Node(1, "PowBackward0"),
        *(Node(node, "MulBackward0", task=task) for node, task in ((2, 0), (3, 0), (4, 1), (5, 1))),
        Edge(2, 0, 1), Edge(3, 0, 1),
        GraphTask(0, roots=(1,), create_graph=True, begin=1),
        GraphTask(1, roots=(2, 3), create_graph=True, begin=2),
    )  # fmt: skip

    assert [group.title for group in graph_scene(trace, FORWARD).groups] == [
        "ran in backward 0 (create_graph)",
        "2nd derivatives: ran in backward 1 (create_graph)",
    ]


def test_calls_of_a_module_are_framed_and_fold() -> None:
    trace = trace_of(
        Module(0, "", "Net"),
        Module(1, "a", "Linear", 0),
        Op(0, "t", begin=0, inputs=(0,), outputs=(1,), module=1),
        Op(1, "addmm", begin=1, inputs=(1, 9), outputs=(2,), module=1),
        Op(2, "sum", begin=2, inputs=(2,), outputs=(3,)),
    )

    assert [group.title for group in graph_scene(trace, FORWARD).groups] == ["a · Linear"]
    folded = graph_scene(trace, GraphOptions(graph=GraphOf.FORWARD, fold=("a",)))
    (box,) = (box for box in folded.boxes if box.form is Form.FOLDED)
    assert box.calls == (0, 1)
    assert box.lines[0] == BoxLine("2 calls, 2 input tensors")
    assert folded.arrows == (Arrow("m:a/1", "c2", "", Form.FOLDED),)


def test_the_options_that_choose_choose_calls() -> None:
    trace = small()

    def of(**chosen: object) -> list[int]:
        selection = Selection(**chosen)  # type: ignore[arg-type]
        return called(graph_scene(trace, GraphOptions(selection, graph=GraphOf.FORWARD)))

    assert of(path_to="w") == [0, 1, 2]
    assert of(around="relu_", hops=1) == [0, 1, 2]
    assert of(around="MeanBackward0", hops=0) == [2]
    assert of(around="neg") == [3]
    assert of(backward=0) == [0, 1, 2]
    with pytest.raises(UnknownNameError, match=r"no call, tensor, module .*: did you mean mean"):
        of(around="meen")
    with pytest.raises(UsageError, match=r"--critical .* only with --graph backward"):
        of(critical=True)
    with pytest.raises(UsageError, match="with --graph forward use kind, time or structure"):
        graph_scene(trace, GraphOptions(graph=GraphOf.FORWARD, color_by=ColorBy.GRAD))
    warm = graph_scene(trace, GraphOptions(graph=GraphOf.FORWARD, color_by=ColorBy.TIME))
    assert {box.title: box.heat for box in warm.boxes if box.heat is not None} == {
        "mul": 1.0, "relu_": 0.5, "mean": 0.1, "neg": 0.1,
    }  # fmt: skip


def test_of_several_steps_the_first_is_drawn_with_what_goes_on_to_others() -> None:
    trace = trace_of(
        Step(0, 0, 0, 10),
        Step(1, 1, 10, 20),
        Op(0, "mul", begin=1, inputs=(0,), outputs=(1,), step=0),
        Op(1, "sum", begin=11, inputs=(1,), outputs=(2,), step=1),
        *(
            Op(2 + at, "_fused_sgd_", begin=9 + 10 * at, phase=Phase.OPTIMIZER, step=at)
            for at in range(2)
        ),
    )
    scene = graph_scene(trace, FORWARD)
    assert scene.notes[1].startswith("not drawn: 1 call that fill parameters or data")

    assert called(scene) == [0]
    assert scene.title == "step 0 · forward graph"
    assert lines_of(scene, "mul")[-1] == "⋯ 1 edge to calls not shown"


def test_both_graphs_stand_in_one_picture_and_name_one_another() -> None:
    scene = graph_scene(small(), GraphOptions(graph=GraphOf.BOTH))

    assert [group.title for group in scene.groups] == ["forward", "backward"]
    assert called(scene) == [0, 1, 2]
    named = {box.title: box.lines[-1].text for box in scene.boxes if box.lines}
    assert named["mean"] == "created MeanBackward0"
    assert named["MeanBackward0"] == "↔ mean"
    assert named["ReluBackward0"] == "↔ relu_"
    assert (
        "forward: only calls that created a node are drawn; --graph forward draws all"
        in scene.notes
    )


def test_in_both_lines_lead_from_calls_to_their_nodes_and_from_what_is_kept_to_the_same() -> None:
    scene = graph_scene(small(), GraphOptions(graph=GraphOf.BOTH, saved=True))
    title = {box.id: box.title for box in scene.boxes}

    assert {(tie.tail[0], tie.head[0], tie.form) for tie in scene.ties} == {("f", "b", Form.MADE)}
    assert sorted((title[tie.tail], title[tie.head]) for tie in scene.ties) == [
        ("mean", "MeanBackward0"),
        ("mul", "MulBackward0"),
        ("other", "other"),
        ("relu_", "ReluBackward0"),
        ("result", "result"),
    ]
    assert scene.ties[0] not in scene.arrows  # they move no box


def test_in_both_a_call_may_be_named_or_its_node() -> None:
    for name in ("relu_", "ReluBackward0"):
        options = GraphOptions(Selection(around=name, hops=1), graph=GraphOf.BOTH)
        scene = graph_scene(small(), options)

        assert called(scene) == [0, 1, 2]
        assert {box.title for box in scene.boxes if box.form is Form.FUNCTION} == {
            "MulBackward0", "ReluBackward0", "MeanBackward0",
        }  # fmt: skip
    with pytest.raises(UnknownNameError, match="did you mean relu_"):
        graph_scene(small(), GraphOptions(Selection(around="relu"), graph=GraphOf.BOTH))


def test_both_graphs_open_the_same_modules() -> None:
    scene = graph_scene(load(GALLERY / "resnet.json.gz"), GraphOptions(graph=GraphOf.BOTH))
    modules = [group for group in scene.groups if group.id.endswith("/1")]
    forward, backward = (
        {group.title for group in modules if group.id.startswith(side)} for side in "fb"
    )

    assert forward & backward


def box_of_call(scene: GraphScene) -> dict[int, Box]:
    return {call: box for box in scene.boxes for call in box.calls}


@given(limit=st.integers(1, 60), name=st.sampled_from(["mlp.json", "gpt.json.gz", "rnn.json.gz"]))
def test_every_call_has_a_box_or_is_counted_and_arrows_are_operands(limit: int, name: str) -> None:
    trace = load(GALLERY / name)
    first = None if name == "rnn.json.gz" else 0
    selection = Selection(step=first)
    scene = graph_scene(trace, GraphOptions(selection, graph=GraphOf.FORWARD, limit=limit))
    own = [op for op in trace.rows(Op) if first is None or op.step == first]
    notes = " ".join(scene.notes)
    cut = re.search(r"showing ([\d,]+) of ([\d,]+) calls", notes)
    aside = re.search(r"without ([\d,]+) calls? in which", notes)

    drawn = called(scene)
    assert len(drawn) == len(set(drawn))
    assert set(drawn) <= {op.id for op in own}
    if cut:
        assert number(cut[1]) >= len(drawn)
    elif first is None:
        assert len(drawn) + (number(aside[1]) if aside else 0) == len(own)
    boxes, makers = box_of_call(scene), {each: op.id for op in own for each in op.outputs}
    wanted = {
        (boxes[makers[tensor]].id, boxes[op.id].id)
        for op in own
        for tensor in op.inputs
        if op.id in boxes and tensor in makers and makers[tensor] in boxes
        if boxes[op.id] is not boxes[makers[tensor]] and makers[tensor] < op.id
    }
    data = {box.id for box in scene.boxes if box.form in (Form.LEAF, Form.DATA)}
    between = {(arrow.tail, arrow.head) for arrow in scene.arrows if arrow.tail not in data}
    assert wanted <= between


def number(text: str) -> int:
    return int(text.replace(",", ""))


def test_the_same_trace_gives_the_same_picture() -> None:
    for graph in (GraphOf.FORWARD, GraphOf.BOTH):
        options = GraphOptions(graph=graph)
        path = GALLERY / "double_backward.json"
        assert graph_scene(load(path), options) == graph_scene(load(path), options)
