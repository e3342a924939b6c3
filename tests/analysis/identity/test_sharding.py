"""Tensors that are divided among ranks, in words."""

from __future__ import annotations

from gradscope.analysis.answers.why_none import gradient_of
from gradscope.analysis.graph.reached import reached_leaves
from gradscope.analysis.identity.sharding import Sharding
from gradscope.analysis.program.training import Training
from gradscope.scene.cells import Cells
from gradscope.trace.schema import Accumulate, Gathered, GraphTask, Node, Shard, Tensor
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of


def a_program() -> Trace:
    """A parameter of two ranks, and the leaf into which it is gathered for a backward."""
    return trace_of(
        Tensor(1, shape=(5, 4), dtype="float32", leaf=True, requires_grad=True, name="w"),
        Tensor(2, shape=(5, 4), dtype="float32", leaf=True, requires_grad=True),
        Tensor(3, shape=(), dtype="float32", leaf=True, requires_grad=True, name="scale"),
        Shard(1, local=(3, 4), placements="Shard(0)"),
        Shard(3, local=(), placements="Replicate"),
        Gathered(2, parameters=(1,), names=("w",)),
        Node(7, "AccumulateGrad", inputs=(2,)),
        GraphTask(0, roots=(7,)),
        Accumulate(seq=0, task=0, node=7, tensor=2),
    )


def test_a_divided_tensor_is_shown_with_this_ranks_part() -> None:
    cells = Cells(a_program())

    assert cells.tensor(1) == "w [3, 4] of [5, 4] float32, Shard(0) (tensor 1)"
    assert cells.tensor(3) == "scale scalar of scalar float32, Replicate (tensor 3)"
    assert "of" not in cells.tensor(2)


def test_a_gradient_that_reaches_the_gathered_leaf_reaches_the_parameter() -> None:
    trace = a_program()

    assert reached_leaves(trace) == {1, 2}
    assert trace.once(Training).times_reached == {1: 1, 2: 1}
    assert trace.once(Training).sharing_memory({1}) == {1, 2}
    assert trace.once(Training).sharing_memory({3}) == {3}


def test_a_parameter_without_elements_on_this_rank_gets_no_gradient() -> None:
    trace = trace_of(
        Tensor(1, shape=(5,), leaf=True, requires_grad=True, name="b"),
        Tensor(2, shape=(5,), leaf=True, requires_grad=True),
        Shard(1, local=(0,), placements="Shard(0)"),
        Gathered(2, parameters=(1,), names=("b",)),
        Node(7, "AccumulateGrad", inputs=(2,)),
        GraphTask(0, roots=(7,)),
        Accumulate(seq=0, task=0, node=7, tensor=2),
    )

    assert gradient_of(trace, 1).answer.startswith("This rank holds no part of b")
    assert gradient_of(trace, 2).answer.startswith("1 of 1 backwards sent")


def test_what_fsdp_does_is_said_of_both() -> None:
    sharding = Sharding(a_program())

    assert sharding.held_in(1) == (1, 2)
    assert dict(sharding.story(1)) == {
        "gathered in": "tensor 2: gradients arrive there, and FSDP divides them"
    }
    assert dict(sharding.story(2)) == {"filled by FSDP": "holds w, gathered from all ranks"}
    assert not dict(sharding.story(3))
