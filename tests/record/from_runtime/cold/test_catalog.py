"""What is written out in full."""

from __future__ import annotations

import gradscope.runtime as torch
from gradscope.analysis.identity.sites import site_of
from gradscope.analysis.nonfinite.births import births
from gradscope.record.recorder import record
from gradscope.trace.schema import NONE, Edge, Node, Op, Place, Saved, Version
from gradscope.trace.spec import check


def test_the_new_history_that_a_write_through_a_view_makes_has_the_line_of_the_write() -> None:
    leaf = torch.ones(4, requires_grad=True)
    with record() as recording:
        made = leaf.clone()
        made[1:].mul_(3)
        made.sum().backward()

    trace = recording.trace()
    lines = {
        node.name: site_of(trace, node.stack).text
        for node in trace.rows(Node)
        if node.name in {"CopySlices", "AsStridedBackward0"}
    }
    assert lines == dict.fromkeys(("CopySlices", "AsStridedBackward0"), "made[1:].mul_(3)")
    assert check(trace) == []


def test_a_write_that_keeps_its_result_keeps_the_tensor_it_wrote_to() -> None:
    leaf = torch.ones(4, requires_grad=True)
    with record() as recording:
        made = leaf.clone()
        made.relu_()
        made.sum().backward()

    trace = recording.trace()
    (saved,) = trace.rows(Saved)
    (written,) = trace.rows(Version)
    assert saved.tensor == written.tensor
    assert check(trace) == []


def test_the_second_result_is_not_taken_for_the_first() -> None:
    leaf = torch.ones(2, 3, requires_grad=True)
    with record() as recording:
        leaf.max(dim=1).values.sum().backward()

    trace = recording.trace()
    (saved,) = trace.rows(Saved)
    (call,) = (op for op in trace.rows(Op) if op.name == "max.dim")
    assert (saved.slot, saved.tensor) == ("indices", call.outputs[1])


def test_what_a_hook_has_packed_is_no_tensor_of_the_trace() -> None:
    leaf = torch.ones(3, requires_grad=True)
    with record() as recording, torch.autograd.graph.saved_tensors_hooks(lambda x: 1, lambda x: x):
        leaf.sin()

    (saved,) = recording.trace().rows(Saved)
    assert (saved.tensor, saved.hooked) == (NONE, True)


def test_dims_that_change_in_place_make_one_call_and_one_node() -> None:
    leaf = torch.ones(2, 3, requires_grad=True)
    with record() as recording:
        made = leaf.clone().mul_(2)
        made.transpose_(0, 1)
        made.sum().backward()

    trace = recording.trace()
    names = {node.id: node.name for node in trace.rows(Node)}
    edges = {(names[edge.node], names.get(edge.next)) for edge in trace.rows(Edge)}
    assert ("SumBackward0", "TransposeBackward1") in edges
    assert ("TransposeBackward1", "MulBackward0") in edges
    assert len(names) == 5
    assert [version.new for version in trace.rows(Version)] == [1, 2]
    assert check(trace) == []


def test_what_a_write_made_is_not_taken_for_what_was_there_before() -> None:
    with record(level="values") as recording:
        made = torch.zeros(2)
        made.div_(made)

    trace = recording.trace()
    names = {op.id: op.name for op in trace.rows(Op)}
    (birth,) = births(trace).births
    assert (birth.kind, birth.place, names[birth.op]) == ("NaN", Place.OP_OUTPUT, "div_")
    assert check(trace) == []


def test_a_nan_written_through_a_view_is_born_once() -> None:
    leaf = torch.ones(3, requires_grad=True)
    with record(level="values") as recording:
        made = leaf.clone()
        made[1] = float("nan")
        (made * 2).sum()

    (birth,) = births(recording.trace()).births
    assert (birth.kind, birth.place) == ("NaN", Place.LEAF)


def test_the_indices_that_a_node_keeps_are_saved_and_taken_by_the_call() -> None:
    leaf, index = torch.ones(4, requires_grad=True), torch.tensor([0, 2])
    with record() as recording:
        at = index + 0
        leaf[at].sum().backward()

    trace = recording.trace()
    made, call = (op for op in trace.rows(Op) if op.name in {"add.Tensor", "add", "index"})
    assert [(saved.slot, saved.tensor) for saved in trace.rows(Saved)] == [
        ("indices", made.outputs[0])
    ]
    assert call.inputs[1:] == made.outputs
    assert check(trace) == []


def test_a_node_takes_gradients_of_those_outputs_that_have_one() -> None:
    scores, layer = torch.ones(2, 3, requires_grad=True), torch.nn.LSTM(2, 2)
    with record() as recording:
        torch.nn.functional.nll_loss(scores, torch.tensor([0, 1]))
        scores.max(1)
        layer(torch.ones(3, 1, 2))

    trace = recording.trace()
    calls = {op.id: op for op in trace.rows(Op)}
    taken = {
        node.name: (node.inputs, calls[node.op].outputs)
        for node in trace.rows(Node)
        if node.name in {"NllLossBackward0", "MaxBackward0", "MkldnnRnnLayerBackward0"}
    }
    assert [len(inputs) for inputs, _ in taken.values()] == [1, 1, 3]
    assert all(inputs == outputs[: len(inputs)] for inputs, outputs in taken.values())
    assert check(trace) == []


def test_the_mask_of_a_dropout_was_written_to_twice() -> None:
    leaf = torch.ones(5, requires_grad=True)
    with record() as recording:
        torch.nn.functional.dropout(leaf, 0.5)

    trace = recording.trace()
    (mask,) = (saved for saved in trace.rows(Saved) if saved.slot == "other")
    assert mask.version == 2
    assert check(trace) == []
