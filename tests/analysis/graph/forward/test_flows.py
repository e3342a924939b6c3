"""Which call made or wrote what each call was given."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from gradscope.analysis.graph.forward.calls import ForwardCalls
from gradscope.analysis.graph.forward.flows import Flow, Flows
from gradscope.trace.load_save import load
from gradscope.trace.schema import NONE, Node, NodeBegin, Op, Saved, Tensor, Version
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of

GALLERY = Path(__file__).parents[4] / "docs" / "gallery"


def flows_of(trace: Trace) -> list[tuple[int, int, int]]:
    """Users, makers and tensors."""
    return [(flow.user, flow.maker, flow.tensor) for flow in Flows(trace).all]


def test_what_a_call_was_given_comes_from_the_call_that_returned_it() -> None:
    trace = trace_of(
        Op(0, "unbind", begin=0, inputs=(9,), outputs=(1, 2)),
        Op(1, "mul", begin=1, inputs=(2, 2), outputs=(3,)),
        Op(2, "add", begin=2, inputs=(3, 9), outputs=(4,)),
    )

    assert Flows(trace).all == [
        Flow(0, NONE, 9),
        Flow(1, 0, 2, output=1),
        Flow(1, 0, 2, output=1),
        Flow(2, 1, 3, output=0),
        Flow(2, NONE, 9),
    ]


def test_after_a_write_it_comes_from_the_call_that_wrote() -> None:
    trace = trace_of(
        Tensor(1, storage=1),
        Op(0, "mul", begin=0, inputs=(0,), outputs=(1,)),
        Op(1, "relu_", begin=1, inputs=(1,), outputs=(1,)),
        Op(2, "add", begin=2, inputs=(1,), outputs=(2,)),
        Version(storage=1, tensor=1, old=0, new=1, op=1),
    )

    assert flows_of(trace) == [(0, NONE, 0), (1, 0, 1), (2, 1, 1)]


def test_after_a_write_through_a_view_it_comes_from_both() -> None:
    """y[0] = 1; y.sum()."""
    trace = trace_of(
        Tensor(0, storage=0),
        Tensor(1, storage=0),
        Op(0, "select", begin=0, inputs=(0,), outputs=(1,)),
        Op(1, "fill_", begin=1, inputs=(1,), outputs=(1,)),
        Op(2, "sum", begin=2, inputs=(0,), outputs=(2,)),
        Version(storage=0, tensor=1, old=0, new=1, op=1),
    )

    assert Flows(trace).all[-2:] == [Flow(2, 1, 0, shared=True), Flow(2, NONE, 0)]


def test_a_write_that_names_no_operands_is_one_to_its_tensor() -> None:
    trace = trace_of(
        Op(0, "zero_", begin=0),
        Op(1, "sum", begin=1, inputs=(5,), outputs=(6,)),
        Version(storage=1, tensor=5, old=0, new=1, op=0),
    )

    assert flows_of(trace) == [(0, NONE, 5), (1, 0, 5)]


def test_where_operands_are_inferred_what_a_node_keeps_of_them_is_one() -> None:
    rows = (
        Op(0, "addmm", begin=0, inputs=(1,), outputs=(2,), node=0),
        Node(0, "AddmmBackward0", op=0),
        Saved(0, node=0, slot="mat1", tensor=7),
        Saved(1, node=0, slot="mat2", tensor=1),
        Saved(2, node=0, slot="result", tensor=8),
    )

    inferred = Flows(trace_of(*rows, meta={"inferred": ["op.inputs"]}))

    assert inferred.all == [Flow(0, NONE, 1), Flow(0, NONE, 7, kept="mat1")]
    assert flows_of(trace_of(*rows)) == [(0, NONE, 1)]


def test_a_result_that_a_node_kept_is_the_same_in_the_formula_that_it_is_given_to() -> None:
    trace = trace_of(
        Tensor(1, (2,), dtype="float32", op=0),
        Tensor(2, (2,), dtype="float32"),
        Tensor(3, (2,), dtype="float32", leaf=True),
        Op(0, "tanh", begin=0, inputs=(0,), outputs=(1,), node=5),
        Saved(0, node=5, slot="result", tensor=1),
        NodeBegin(0, t=8, node=4, task=0),
        NodeBegin(1, t=10, node=5, task=0),
        NodeBegin(2, t=20, node=6, task=0),
        Op(1, "tanh_backward", begin=15, inputs=(3, 2), outputs=(4,), task=0),
        Op(2, "mul", begin=25, inputs=(3,), outputs=(5,), task=0),
    )

    assert flows_of(trace) == [(0, NONE, 0), (1, NONE, 3), (1, 0, 2), (2, NONE, 3)]


def test_what_nobody_made_comes_from_who_made_what_lies_in_its_memory() -> None:
    # y = x * x; z = y.data; w = z + x: of `.data` nobody is told
    trace = trace_of(
        *(Tensor(id, storage=storage) for id, storage in ((0, 0), (1, 1), (2, 1), (3, 3))),
        Op(0, "mul", "", 0, 0, (0, 0), (1,)),
        Op(1, "add", "", 1, 1, (2, 0), (3,)),
    )

    assert Flows(trace).all[-2:] == [Flow(1, 0, 2, shared=True), Flow(1, NONE, 0)]


def test_who_made_it_may_be_said_by_the_tensor_alone() -> None:
    # its number is another by the time the call that made it is told
    trace = trace_of(
        Tensor(1, op=0), Op(0, "mul", "", 0, 0, (0,), (9,)), Op(1, "sin", "", 1, 1, (1,), (3,))
    )

    assert flows_of(trace)[-1] == (1, 0, 1)


tensors = st.lists(st.integers(0, 6), max_size=3).map(tuple)


@given(st.lists(st.tuples(st.sampled_from(("mul", "add_")), tensors, tensors), max_size=12))
def test_each_operand_has_a_flow_from_an_earlier_call_or_from_data(
    called: list[tuple[str, tuple[int, ...], tuple[int, ...]]],
) -> None:
    ops = [Op(n, name, "", n, n, *given_) for n, (name, *given_) in enumerate(called)]
    trace = trace_of(*ops, *(Tensor(id, storage=id // 2) for id in range(7)))
    flows = Flows(trace).all

    for place, (_, inputs, _) in enumerate(called):
        # One for each operand; and one more where another view of its memory was written.
        own = [flow.tensor for flow in flows if flow.user == place and not flow.shared]
        shared = [flow.tensor for flow in flows if flow.user == place and flow.shared]
        assert {*own, *shared} == {*inputs}
        assert len(own) <= len(inputs) <= len(own) + len(shared)
    for flow in flows:
        assert flow.maker < flow.user
        if flow.output != NONE:
            assert called[flow.maker][2][flow.output] == flow.tensor


@pytest.mark.parametrize("name", ["double_backward.json", "mlp.json", "resnet.json.gz"])
def test_makers_are_those_that_the_recorder_saw(name: str) -> None:
    """Each tensor says which call made it, when it is noted: by another way than flows go."""
    trace = load(GALLERY / name)
    calls, table = ForwardCalls(trace), trace.table(Tensor)
    made = [flow for flow in Flows(trace).all if flow.output != NONE]

    assert len(made) > 10
    for flow in made:
        if not calls.within.get(int(calls.rows[flow.maker])):
            assert table.row(flow.tensor).op == calls.id[flow.maker]
