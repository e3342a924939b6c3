"""Every kind of place at which a NaN or an Inf can be born, and what is not a birth."""

from __future__ import annotations

from itertools import count

from gradscope.analysis.nonfinite.births import Birth, Births, births, nonfinite_nodes
from gradscope.trace.schema import (
    NONE,
    Accumulate,
    Accumulation,
    BufferAdded,
    BufferMade,
    Decrement,
    Edge,
    HookBegin,
    HookEnd,
    HookKind,
    Node,
    NodeBegin,
    NodeEnd,
    Op,
    Place,
    Row,
    Saved,
    Storage,
    Tensor,
    Value,
    Version,
)
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of
from tests.shared.example_traces import mean_of_squares, nan_in_backward

FINITE, NAN, INF = (0, 0), (1, 0), (0, 1)


class Values:
    """Writes statistics in the order of time."""

    def __init__(self) -> None:
        self.ids = count()

    def at(self, place: Place, state: tuple[int, int], **columns: int) -> Value:
        id = next(self.ids)
        nan, posinf = state
        return Value(id, place, t=id, count=4, nan=nan, posinf=posinf, **columns)


def places(trace: Trace) -> list[tuple[str, Place, int]]:
    return [(birth.kind, birth.place, birth.node) for birth in births(trace).births]


def test_a_birth_says_what_where_and_how_many() -> None:
    found = births(nan_in_backward())

    assert found == Births(
        checked=True,
        births=(
            Birth(
                value=7,
                kind="Inf",
                place=Place.NODE_OUTPUT,
                op=NONE,
                node=2,
                index=0,
                tensor=NONE,
                task=0,
                step=NONE,
                seq=13,
                t=found.births[0].t,
                count=3,
                nan=0,
                posinf=1,
                neginf=0,
                bad=(0,),
                from_inf=False,
                unchecked=0,
                cause=7,
            ),
            found.births[1],
        ),
        propagated=3,
    )
    assert found.births[1].kind == "NaN"
    assert found.births[1].from_inf
    assert found.births[1].cause == 7


def test_a_forward_call_gives_birth_where_its_operands_were_finite() -> None:
    v = Values()
    trace = trace_of(
        Op(0, "log", inputs=(0,), outputs=(1,)),
        Op(1, "mul", inputs=(1, 0), outputs=(2,)),
        v.at(Place.LEAF, FINITE, tensor=0),
        v.at(Place.OP_OUTPUT, INF, op=0, tensor=1),
        v.at(Place.OP_OUTPUT, INF, op=1, tensor=2),
    )

    assert [(birth.kind, birth.op) for birth in births(trace).births] == [("Inf", 0)]
    assert births(trace).propagated == 1


def test_an_operand_without_statistics_makes_a_birth_less_certain() -> None:
    v = Values()
    trace = trace_of(
        Op(0, "mul", inputs=(0, 1), outputs=(2,)),
        v.at(Place.LEAF, FINITE, tensor=0),
        v.at(Place.OP_OUTPUT, NAN, op=0, tensor=2),
    )

    assert [birth.unchecked for birth in births(trace).births] == [1]


def test_a_leaf_that_came_with_a_nan_was_born_outside() -> None:
    v = Values()
    trace = trace_of(v.at(Place.LEAF, NAN, tensor=0), v.at(Place.SEED, INF, node=0, task=0))

    assert [birth.place for birth in births(trace).births] == [Place.LEAF, Place.SEED]


def test_a_parameter_that_an_optimizer_made_of_a_nan_was_not_born_as_a_leaf() -> None:
    v = Values()
    trace = trace_of(
        Node(0, "AccumulateGrad", inputs=(0,)),
        v.at(Place.LEAF, FINITE, tensor=0),
        v.at(Place.GRAD, NAN, node=0, task=0, tensor=0),
        v.at(Place.LEAF, NAN, tensor=0),
    )

    assert [birth.place for birth in births(trace).births] == [Place.GRAD]


def test_a_node_whose_saved_value_is_nan_only_passes_it_on() -> None:
    v = Values()
    trace = trace_of(
        Node(0, "MulBackward0"),
        Saved(0, node=0, slot="other", tensor=5),
        v.at(Place.LEAF, NAN, tensor=5),
        v.at(Place.NODE_INPUT, FINITE, node=0, task=0),
        v.at(Place.NODE_OUTPUT, NAN, node=0, task=0),
    )

    assert places(trace) == [("NaN", Place.LEAF, NONE)]


def fan_in(first: tuple[int, int], second: tuple[int, int], total: tuple[int, int]) -> Trace:
    """Two nodes send to the same input of a third; `seq` of the addition is 5."""
    v = Values()
    rows: list[Row] = [
        *(Node(id, name) for id, name in enumerate(("Mul", "Mul", "Add"))),
        Edge(0, 0, 2),
        Edge(1, 0, 2),
        NodeEnd(task=0, node=0),
        Decrement(task=0, node=2, source=0, remaining=1),
        BufferMade(task=0, node=2),
        NodeEnd(task=0, node=1),
        Decrement(task=0, node=2, source=1, remaining=0),
        BufferAdded(task=0, node=2),
        NodeBegin(task=0, node=2),
        v.at(Place.NODE_INPUT, FINITE, node=0, task=0),
        v.at(Place.NODE_OUTPUT, first, node=0, task=0, seq=0),
        v.at(Place.NODE_INPUT, FINITE, node=1, task=0),
        v.at(Place.NODE_OUTPUT, second, node=1, task=0, seq=3),
        v.at(Place.BUFFER, total, node=2, task=0, seq=5),
        v.at(Place.NODE_INPUT, total, node=2, task=0, seq=6),
    ]
    return trace_of(*rows)


def test_two_finite_gradients_that_overflow_are_born_in_the_sum() -> None:
    """detect_anomaly says nothing here, or blames the node after it."""
    assert places(fan_in(FINITE, FINITE, INF)) == [("Inf", Place.BUFFER, 2)]


def test_inf_minus_inf_is_born_in_the_sum_and_each_inf_where_it_was() -> None:
    trace = fan_in(INF, INF, NAN)

    assert places(trace) == [
        ("Inf", Place.NODE_OUTPUT, 0),
        ("Inf", Place.NODE_OUTPUT, 1),
        ("NaN", Place.BUFFER, 2),
    ]
    assert births(trace).births[2].from_inf


def test_a_gradient_that_arrives_bad_is_not_born_again() -> None:
    assert places(fan_in(NAN, FINITE, NAN)) == [("NaN", Place.NODE_OUTPUT, 0)]


def hooked(kind: HookKind) -> Trace:
    v = Values()
    post = kind is HookKind.POST
    values = [
        v.at(Place.SEED, FINITE, node=0, task=0),
        *([v.at(Place.NODE_INPUT, FINITE, node=0, task=0)] if post else []),
        *([v.at(Place.NODE_OUTPUT, FINITE, node=0, task=0)] if post else []),
        v.at(Place.HOOK, NAN, node=0, task=0, seq=1),
        *([] if post else [v.at(Place.NODE_INPUT, NAN, node=0, task=0)]),
        *([] if post else [v.at(Place.NODE_OUTPUT, NAN, node=0, task=0)]),
        v.at(Place.NODE_INPUT, NAN, node=1, task=0),
    ]
    return trace_of(
        Node(0, "Mul"),
        Node(1, "Add"),
        Edge(0, 0, 1),
        HookBegin(task=0, node=0, hook=kind),
        HookEnd(task=0, node=0, hook=kind, replaced=True),
        Decrement(task=0, node=1, source=0),
        *values,
    )


def test_an_inf_that_a_call_was_told_to_write_is_not_born_and_a_nan_is() -> None:
    v = Values()
    trace = trace_of(
        Op(0, "masked_fill_.Scalar", outputs=(0,)),
        Op(1, "masked_fill.Scalar", outputs=(1,)),
        v.at(Place.OP_OUTPUT, INF, op=0, tensor=0, node=NONE),
        v.at(Place.OP_OUTPUT, NAN, op=1, tensor=1, node=NONE),
    )

    found = births(trace)

    assert [(birth.kind, birth.op) for birth in found.births] == [("NaN", 1)]
    assert found.propagated == 0


def written_through_a_view(*later: Row) -> Trace:
    """`view` is a part of `whole`, which was looked at when it was finite."""
    v = Values()
    return trace_of(
        Storage(0, bytes=16),
        Tensor(0, storage=0, bytes=16),
        Tensor(1, storage=0, bytes=4),
        Tensor(2, storage=1, bytes=16),
        Op(0, "clone", outputs=(0,)),
        Op(1, "copy_", inputs=(1,), outputs=(1,)),
        Op(2, "mul", inputs=(0,), outputs=(2,)),
        Version(storage=0, tensor=1, op=1),
        v.at(Place.OP_OUTPUT, FINITE, op=0, tensor=0, node=NONE),
        v.at(Place.OP_OUTPUT, NAN, op=1, tensor=1, node=NONE),
        *later,
        Value(9, Place.OP_OUTPUT, op=2, tensor=2, nan=1, t=9),
    )


def test_what_is_written_through_a_view_is_in_the_whole() -> None:
    assert [birth.op for birth in births(written_through_a_view()).births] == [1]


def test_what_is_written_over_is_gone() -> None:
    mended = written_through_a_view(
        Op(3, "zero_", inputs=(0,), outputs=(0,)),
        Version(storage=0, tensor=0, op=3),
        Value(5, Place.OP_OUTPUT, op=3, tensor=0, t=5),
    )

    assert [birth.op for birth in births(mended).births] == [1, 2]


def test_a_hook_that_returns_a_nan_is_where_it_was_born() -> None:
    """detect_anomaly blames the node after the hook."""
    for kind in (HookKind.TENSOR, HookKind.PRE, HookKind.POST):
        assert places(hooked(kind)) == [("NaN", Place.HOOK, 0)], kind


def accumulated(before: tuple[int, int], new: tuple[int, int], total: tuple[int, int]) -> Trace:
    v = Values()
    return trace_of(
        Node(0, "AccumulateGrad", inputs=(7,)),
        Accumulate(task=0, node=0, tensor=7, how=Accumulation.STOLEN),
        Accumulate(task=1, node=0, tensor=7, how=Accumulation.IN_PLACE),
        v.at(Place.SEED, before, node=0, task=0),
        v.at(Place.NODE_INPUT, before, node=0, task=0),
        v.at(Place.GRAD, before, node=0, task=0, tensor=7, seq=0),
        v.at(Place.SEED, new, node=0, task=1),
        v.at(Place.NODE_INPUT, new, node=0, task=1),
        v.at(Place.GRAD, total, node=0, task=1, tensor=7, seq=1),
    )


def test_a_gradient_that_overflows_across_steps_is_born_in_grad() -> None:
    """detect_anomaly says nothing here."""
    assert places(accumulated(FINITE, FINITE, INF)) == [("Inf", Place.GRAD, 0)]


def test_a_grad_that_was_bad_before_is_not_born_again() -> None:
    assert places(accumulated(NAN, FINITE, NAN)) == [("NaN", Place.SEED, 0)]


def test_a_trace_without_statistics_was_not_checked() -> None:
    assert births(mean_of_squares()) == Births(checked=False, births=(), propagated=0)
    assert births(trace_of(meta={"level": "values"})).checked


def test_a_place_that_a_newer_gradscope_added_is_left_alone() -> None:
    assert births(trace_of(Value(0, place=99, nan=1))).births == ()


def test_every_node_with_a_bad_value_is_known() -> None:
    """Node 2 bears an Inf, node 0 takes it and bears a NaN, and the leaf's node 1 takes that."""
    assert nonfinite_nodes(nan_in_backward()) == {0: "NaN, Inf", 1: "NaN", 2: "Inf"}


def test_what_ctc_keeps_of_the_impossible_is_no_birth_but_an_infinite_loss_is() -> None:
    values = Values()
    trace = trace_of(
        Op(0, "_ctc_loss", outputs=(0, 1)),
        Op(1, "_ctc_loss", outputs=(2, 3)),
        Tensor(0),
        Tensor(1),
        Tensor(2),
        Tensor(3),
        values.at(Place.OP_OUTPUT, FINITE, op=0, tensor=0, index=0, node=NONE),
        values.at(Place.OP_OUTPUT, INF, op=0, tensor=1, index=1, node=NONE),
        values.at(Place.OP_OUTPUT, INF, op=1, tensor=2, index=0, node=NONE),
        values.at(Place.OP_OUTPUT, INF, op=1, tensor=3, index=1, node=NONE),
    )

    assert [(birth.op, birth.tensor) for birth in births(trace).births] == [(1, 2)]


def test_memory_that_a_collective_still_fills_is_no_birth() -> None:
    v = Values()

    def trace(name: str) -> Trace:
        return trace_of(
            Op(0, name, outputs=(0,)),
            v.at(Place.OP_OUTPUT, NAN, op=0, tensor=0),
            meta={"inferred": ["op.inputs"]},
        )

    assert not births(trace("c10d::_allgather_base_")).births
    assert births(trace("log")).births
