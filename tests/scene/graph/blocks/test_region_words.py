"""Compiled regions in words, in the report, in pictures and on the page; traces built by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradscope.analysis.answers.compiled_facts import compiled, plain_name
from gradscope.analysis.report import inspect
from gradscope.scene.answers.things import chosen_node
from gradscope.scene.graph.blocks.region_words import NOTHING, compiled_regions
from gradscope.scene.graph.graph import graph_scene
from gradscope.scene.graph.options import GraphOptions
from gradscope.scene.kinds import Form
from gradscope.scene.report import report_tables
from gradscope.scene.viewer.regions import region_tables
from gradscope.scene.viewer.text_columns import Texts
from gradscope.trace.schema import (
    NONE,
    Compilation,
    Edge,
    Frame,
    GraphBreak,
    GraphTask,
    Node,
    Phase,
    Region,
    RegionKernel,
    RegionOp,
    Stack,
)
from gradscope.trace.schema.declare import Row
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of

FORWARD, BACKWARD = int(Phase.FORWARD), int(Phase.BACKWARD)


def lines(*numbers: int) -> list[Row]:
    texts = {10: "def forward(self, x):", 11: "h = relu(x @ w)", 12: "print(h)"}
    frames = [Frame(nr, "net.py", line, "forward", texts[line]) for nr, line in enumerate(numbers)]
    return [*frames, *[Stack(nr, nr) for nr in range(len(numbers))]]


def inside(region: int) -> Sequence[Row]:
    return [
        RegionOp(0, region, FORWARD, "primals_1", "input", "f32[2, 3]"),
        RegionOp(1, region, FORWARD, "mm", "aten.mm.default", "f32[2, 3]", (0,), 1),
        RegionOp(2, region, FORWARD, "relu", "aten.relu.default", "f32[2, 3]", (1,), 1),
        RegionOp(3, region, BACKWARD, "relu", "input", "f32[2, 3]"),
        RegionOp(4, region, BACKWARD, "tangents_1", "input", "f32[2, 3]"),
        RegionOp(5, region, BACKWARD, "threshold_backward", "aten.threshold_backward.default",
                 "f32[2, 3]", (4, 3), 1),
        RegionKernel(0, region, FORWARD, "extern_kernels.mm", ("mm",)),
        RegionKernel(1, region, FORWARD, "cpp_fused_relu_0", ()),
        RegionKernel(2, region, BACKWARD, "cpp_fused_threshold_backward_0", ()),
    ]  # fmt: skip


def a_trace(*more: Row) -> Trace:
    return trace_of(
        *more,
        *lines(10, 11, 12),
        Compilation(0, "0/0", "forward", 0, begin=0, end=2_000_000),
        Compilation(1, "0/1", "forward", 0, NONE, ("0/0: size mismatch",), begin=5, end=1_000_005),
        GraphBreak(0, 0, "print cannot be traced", "Remove it.", 2),
        GraphBreak(1, 1, "print cannot be traced", "Remove it.", 2),
        Region(0, 0),
        *inside(0),
        Node(1, "AccumulateGrad", sequence_nr=-1),
        Node(2, "CompiledFunctionBackward", stack=0, region=0),
        Edge(2, 0, 1, 0),
        GraphTask(0, roots=(2,)),
        meta={"level": "engine"},
    )


def test_a_region_knows_what_it_keeps_and_which_kernels_its_operations_became() -> None:
    (region,) = compiled(a_trace()).regions

    assert [each.name for each in region.kept] == ["relu"]
    assert {each.op: each.kernel for each in region.ops if not each.is_input} == {
        "mm": "extern_kernels.mm",
        "relu": "cpp_fused_relu_0",
        "threshold_backward": "cpp_fused_threshold_backward_0",
    }
    assert region.nodes == 1


def test_the_answer_names_lines_breaks_and_recompilations() -> None:
    answer = compiled_regions(a_trace())
    sections = {each.title: each.lines for each in answer.sections}

    assert answer.title == ("2 compilations in 3.00 ms: 1 region, 1 graph break, 1 recompilation.")
    assert sections["graph breaks"] == (
        "net.py:12 print(h): print cannot be traced; PyTorch advises: Remove it.",
    )
    assert sections["compiled again"] == ("forward (net.py:10): 0/0: size mismatch",)
    assert sections["regions"] == (
        (
            "0, forward (net.py:10): 2 operations in forward, 1 operation in backward, 3 kernels, "
            "keeps relu f32[2, 3], 1 node"
        ),
    )
    assert sections["inside region 0, forward (net.py:10)"] == (
        "forward: net.py:11 h = relu(x @ w): mm, relu -> extern_kernels.mm, cpp_fused_relu_0",
        "backward: net.py:11 h = relu(x @ w): threshold_backward -> cpp_fused_threshold_backward_0",
    )
    assert "inferred" in answer.notes[0]
    assert compiled_regions(trace_of()).title == NOTHING


def test_the_report_has_tables_and_no_finding() -> None:
    report = inspect(a_trace())
    tables = {each.title: each.rows for each in report_tables(report, 8)}

    assert tables["compiled regions"] == (("0", "forward (net.py:10)", "2", "1", "3", "1", "1"),)
    assert tables["graph breaks and recompilations"] == (
        ("net.py:12", "graph break", "print cannot be traced"),
        ("net.py:10", "forward compiled again", "0/0: size mismatch"),
    )
    assert not report.findings
    assert "compiled regions" not in {
        each.title for each in report_tables(inspect(trace_of(meta={"level": "engine"})), 8)
    }


def test_the_answer_about_its_node_shows_the_inside() -> None:
    sections = {each.title: each.lines for each in chosen_node(a_trace(), "2").sections}

    shown = sections["inside the compiled region (reported when it was compiled)"]
    assert [each.partition(":")[0] for each in shown] == ["forward", "backward"]


def test_a_picture_shows_the_region_as_a_frame_if_it_fits() -> None:
    scene = graph_scene(a_trace())
    frame = next(each for each in scene.groups if "compiled region 0" in each.title)
    boxes = [box for box in scene.boxes if box.group == frame.id]

    assert frame.title == "compiled region 0 · 1 operation in 1 kernel"
    assert [box.title for box in boxes] == ["CompiledFunctionBackward", "threshold_backward"]
    assert boxes[1].form is Form.OPERATION
    assert [each.text for each in boxes[1].lines][-2:] == [
        "f32[2, 3]",
        "in cpp_fused_threshold_backward_0",
    ]
    assert (boxes[0].id, boxes[1].id) in {(each.tail, each.head) for each in scene.arrows}
    assert any("inferred" in note for note in scene.notes)


def test_a_region_that_does_not_fit_stays_folded() -> None:
    scene = graph_scene(a_trace(), GraphOptions(limit=1))

    assert "1 compiled region folded; --all opens all of them" in scene.notes
    texts = [line.text for box in scene.boxes for line in box.lines]
    assert "compiled region: 1 operation in 1 kernel" in texts


def test_the_page_has_the_lines_of_each_region() -> None:
    table = region_tables(a_trace(), Texts())["regions"]

    assert table["region"].tolist() == [0, 0, 0]  # type: ignore[union-attr]


def test_the_page_has_the_operations_of_each_region_and_what_they_read() -> None:
    tables = region_tables(a_trace(), Texts())
    numbers = {
        name: {key: each.tolist() for key, each in table.items() if isinstance(each, np.ndarray)}
        for name, table in tables.items()
    }

    assert numbers["region_parts"] == {"region": [0, 0], "is_forward": [1, 0]}
    assert numbers["region_ops"]["part"] == [0, 0, 1]
    assert numbers["region_ops"]["kept"] == [0, 1, 0]
    assert numbers["region_reads"] == {"op": [0, 1, 2], "from": [NONE, 0, NONE]}


def test_an_operation_is_named_without_its_namespace_and_overload() -> None:
    assert [plain_name(each) for each in ("aten.mm.default", "getitem", "operator.mul")] == [
        "mm",
        "getitem",
        "operator.mul",
    ]
