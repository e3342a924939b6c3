"""Moves through a trace, and where they end."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

import gradscope.runtime as torch
from gradscope.debug.walk import Walk
from gradscope.errors import EmptyTraceError, UnknownNameError
from gradscope.record.recorder import record
from gradscope.trace.schema import Node, NodeBegin, NodeEnd, TaskBegin, TaskEnd
from gradscope.trace.trace import Trace
from tests.programs import Program, outcome, programs
from tests.shared.by_hand import trace_of
from tests.shared.searching import searching


@pytest.fixture(scope="module")
def trace() -> Trace:
    with record() as recording:
        x = torch.ones(2, requires_grad=True)
        for _ in range(2):
            (x * x).tanh().sum().backward()
    return recording.trace()


@pytest.fixture
def walk(trace: Trace) -> Walk:
    return Walk(trace)


def name(walk: Walk) -> str:
    row = walk.state.happened
    assert isinstance(row, NodeBegin)
    return walk.trace.table(Node).row(row.node).name


FIRST = ["SumBackward0", "TanhBackward0", "MulBackward0", "AccumulateGrad"]


def test_from_node_to_node_and_back(walk: Walk) -> None:
    seen = []
    while not walk.node(1).at_edge:
        seen.append(name(walk))
    assert seen == FIRST * 2

    back = []
    while not walk.node(-1).at_edge:
        back.append(name(walk))
    assert back == seen[::-1]
    assert walk.moment == 0

    walk.node(3)
    assert name(walk) == "MulBackward0"


def test_out_of_a_node_and_of_its_backward(walk: Walk) -> None:
    walk.node(2)
    walk.out(forward=True)
    assert walk.state.happened.TABLE == NodeEnd.TABLE

    walk.out(forward=True)
    assert walk.state.happened.TABLE == TaskEnd.TABLE
    assert not walk.state.backwards

    walk.step(-1)
    walk.out(forward=False)
    assert walk.state.happened.TABLE == TaskBegin.TABLE


def test_breakpoints_stop_on_and_back(walk: Walk) -> None:
    walk.set("node Tanh*")
    second = walk.set("grad")
    arrivals = [walk.run(forward=True) for _ in range(5)]

    assert [[stop.number for stop in each.stops] for each in arrivals] == [[1], [2], [1], [2], []]
    assert arrivals[-1].at_edge == "the end of the trace"
    assert walk.run(forward=False).moment == arrivals[3].moment
    walk.remove(second.number)
    assert walk.run(forward=False).moment == arrivals[2].moment
    with pytest.raises(UnknownNameError, match="there is no breakpoint 2: 1"):
        walk.remove(2)


def test_until_is_not_kept(walk: Walk) -> None:
    arrival = walk.run(forward=True, until="node Mul*")

    assert [stop.text for stop in arrival.stops] == ["node Mul*"]
    assert not walk.stops
    assert walk.run(forward=True).at_edge


def test_places_by_number_event_and_name(walk: Walk) -> None:
    assert walk.place("12") == 12
    assert walk.place("end") == walk.last
    first = walk.trace.order().seq[0]
    assert walk.place(f"e{first}") == walk._held.moments.of_events[0]
    assert walk.place("node Tanh*") == walk.run(forward=True, until="node Tanh*").moment
    with pytest.raises(UnknownNameError, match="there is no moment"):
        walk.go(walk.last + 1)
    with pytest.raises(UnknownNameError, match="no moment of this trace matches 'error'"):
        walk.place("error")


def test_undo_goes_where_the_last_move_began(walk: Walk) -> None:
    walk.node(1)
    there = walk.moment
    walk.step(3)
    walk.back()
    assert walk.moment == there
    walk.back()
    assert walk.moment == 0
    with pytest.raises(UnknownNameError, match="no move before"):
        walk.back()


def test_states_one_after_the_other_for_programs(walk: Walk) -> None:
    tanh = walk.next("node Tanh*")
    assert tanh is not None
    assert [each.node for each in tanh.backwards[0].running] == [tanh.happened.node]  # type: ignore[attr-defined]
    after = walk.next()
    assert after is not None
    assert after.moment == tanh.moment + 1
    assert walk.previous("node Tanh*").moment == tanh.moment  # type: ignore[union-attr]
    assert walk.previous("node Tanh*") is None


def test_a_trace_of_nothing_says_so() -> None:
    with pytest.raises(EmptyTraceError):
        Walk(trace_of())


@searching(15)
@given(programs(), st.lists(st.integers(1, 9), max_size=5))
def test_so_many_steps_on_and_back_lead_to_the_same_state(
    program: Program, steps: list[int]
) -> None:
    with record() as recording:
        outcome(torch, program)
    walk = Walk(recording.trace())
    walk.go(walk.last // 3)
    before = shown(walk)
    far = [walk.step(many) for many in steps]
    if any(each.at_edge for each in far):
        return
    for many in reversed(steps):
        walk.step(-many)
    assert shown(walk) == before


def shown(walk: Walk) -> object:
    state = walk.state
    return (
        state.moment, state.happened, state.calls, state.gradients, state.saved,
        [(each.running, each.queued, [*each.all_waiting()], each.buffers)
         for each in state.backwards],
    )  # fmt: skip


def test_any_moment_is_looked_at_without_going_there(walk: Walk) -> None:
    walk.node(1)
    here = walk.moment

    assert walk.at("end").moment == walk.last
    assert walk.at(3).moment == 3
    assert walk.at("TanhBackward0").backwards[0].progress[0] > 1
    assert walk.moment == here
    with pytest.raises(UnknownNameError, match="there is no moment"):
        walk.at(walk.last + 1)
