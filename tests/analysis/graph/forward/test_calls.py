"""Which calls stand by themselves, and what they are called."""

from __future__ import annotations

from hypothesis import given, strategies as st

from gradscope.analysis.graph.forward.calls import ForwardCalls
from gradscope.trace.schema import NONE, Op
from tests.shared.by_hand import trace_of


def test_calls_are_in_the_order_in_which_they_began_whatever_their_rows() -> None:
    calls = ForwardCalls(
        trace_of(
            Op(7, "mul.Tensor", begin=30, end=40, outputs=(1,)),
            Op(3, "add.Scalar", begin=10, end=20, outputs=(2,)),
            Op(5, "mul", begin=50, end=60, outputs=(3,)),
        )
    )

    assert calls.id.tolist() == [3, 7, 5]
    assert [calls.of(place) for place in range(3)] == ["add", "mul#1", "mul#2"]


def test_a_call_stands_for_those_inside_it() -> None:
    calls = ForwardCalls(
        trace_of(
            Op(0, "Square", begin=0, end=100, inputs=(0,), outputs=(3,)),
            Op(1, "mul", begin=10, end=20, inputs=(0, 0), outputs=(2,)),
            Op(2, "add", begin=30, end=40, inputs=(2,), outputs=(3,)),
            Op(3, "sum", begin=110, end=120, inputs=(3,), outputs=(4,)),
        )
    )

    assert calls.id.tolist() == [0, 3]
    assert calls.within == {0: 2}


def test_times_may_be_as_late_as_a_trace_can_tell() -> None:
    last = 2**63 - 1
    calls = ForwardCalls(
        trace_of(
            Op(0, "Square", begin=0, end=last, inputs=(0,), outputs=(3,)),
            Op(1, "mul", begin=last - 9, end=last - 5, inputs=(0, 0), outputs=(2,)),
            Op(2, "sum", begin=last, end=last, thread=1, inputs=(3,), outputs=(4,)),
        )
    )

    assert calls.id.tolist() == [0, 2]
    assert calls.within == {0: 1}


def test_those_inside_stand_by_themselves_where_only_they_tell_what_they_were_given() -> None:
    calls = ForwardCalls(
        trace_of(
            Op(0, "linear", begin=0, end=100),
            Op(1, "t", begin=10, end=20, inputs=(0,), outputs=(1,)),
            Op(2, "addmm", begin=30, end=90, inputs=(1,), outputs=(2,)),
            Op(3, "expand", begin=40, end=50),
            Op(4, "softmax", begin=110, end=200),
            Op(5, "_softmax", begin=120, end=190),
        )
    )

    assert calls.id.tolist() == [1, 2, 4]
    assert calls.within == {2: 1, 4: 1}


def test_calls_of_other_threads_and_without_an_end_are_inside_nothing() -> None:
    calls = ForwardCalls(
        trace_of(
            Op(0, "linear", begin=0, end=100, thread=0, outputs=(1,)),
            Op(1, "mul", begin=10, end=20, thread=1, outputs=(2,)),
            Op(2, "add", begin=30, end=NONE, thread=0, outputs=(3,)),
        )
    )

    assert calls.id.tolist() == [0, 1, 2]


def test_those_inside_stand_by_themselves_where_they_made_nodes() -> None:
    calls = ForwardCalls(
        trace_of(
            Op(0, "linear", begin=0, end=100, inputs=(0, 1), outputs=(3,)),
            Op(1, "t", begin=10, end=20, inputs=(1,), outputs=(2,), node=1),
            Op(2, "addmm", begin=30, end=90, inputs=(0, 2), outputs=(3,), node=2),
        )
    )

    assert calls.id.tolist() == [1, 2]


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 9), st.integers(-1, 4)), max_size=9))
def test_what_is_inside_of_what_is_as_if_each_pair_were_looked_at(
    called: list[tuple[int, int, int]],
) -> None:
    ops = [
        Op(n, "mul", begin=begin, end=NONE if took < 0 else begin + took, thread=thread,
           outputs=(n,))
        for n, (thread, begin, took) in enumerate(called)
    ]  # fmt: skip
    calls = ForwardCalls(trace_of(*ops))

    for each in ops:
        around = any(
            other.thread == each.thread
            and other.begin <= each.begin
            and NONE != each.end <= other.end
            and (other.begin, other.end) != (each.begin, each.end)
            for other in ops
        )
        assert (each.id not in calls.id.tolist()) == around
