"""What is said of a program where it stands is what its engine holds there, and what the trace
says of it when the program is over; and the program comes to the same as by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pytest
from hypothesis import given

import gradscope.runtime
from gradscope.analysis.state.moments import Moments
from gradscope.analysis.state.state import BackwardState, State, at
from gradscope.record.recorder import record
from gradscope.record.recording import Recording
from gradscope.record.stops.stop_places import StopPlace, StopPlaces
from gradscope.runtime.core.state.thread import local
from gradscope.trace.schema import GraphTask, NodeBegin
from gradscope.trace.schema.tables import Order
from gradscope.trace.trace import Trace
from tests.programs import Program, outcome, programs
from tests.shared.searching import searching

MOST, APART = 5, 3
"""So many places of one program are looked at, each the third: a look reads the whole trace."""

ENGINES = [
    pytest.param("gradscope", id="gradscope"),
    pytest.param("torch", id="torch", marks=pytest.mark.torch),
]


def _engine(name: str) -> Any:
    return gradscope.runtime if name == "gradscope" else pytest.importorskip("torch")


def _watched(
    engine: str, program: Program, gate: Callable[[StopPlace], Sequence[Any] | None]
) -> tuple[Recording, dict[str, Any]]:
    torch = _engine(engine)
    with record(on=engine) as recording:
        recording.stop_at(StopPlaces(gate))
        return recording, outcome(torch, program)


def _last(trace: Trace) -> State:
    return at(trace, len(trace.once(Moments)) - 1)


def _told(backward: BackwardState) -> object:
    return (
        {each.node: each.count - each.came for each in backward.all_waiting()},
        [each.node for each in backward.queued],
        {(each.node, each.input_nr): each.undefined and not each.added for each in
         backward.buffers},
    )  # fmt: skip


def _held(number: Callable[[Any], int]) -> object:
    """What the runtime itself holds of the backward that runs on this thread."""
    task = local.state.task
    info = task.exec_info
    needed = task.dependencies if info is None else {
        node: left for node, left in task.dependencies.items()
        if node in info and info[node].should_execute()
    }  # fmt: skip
    queued = sorted(entry for entry in local.state.queue.heap if entry[-1] is task)
    return (
        {number(node): left for node, left in needed.items() if left},
        [number(entry[1]) for entry in queued],
        {(number(node), nr): grad is None
         for node, buffer in [*task.not_ready.items(), *(entry[1:3] for entry in queued)]
         for nr, grad in enumerate(buffer)},
    )  # fmt: skip


@searching(20)
@given(programs())
def test_the_state_is_what_the_engine_holds(program: Program) -> None:
    seen: list[tuple[object, object]] = []
    recordings: list[Recording] = []
    places = count()

    def gate(place: StopPlace) -> None:
        recording = recordings[0]
        if place.kind != "begins" or len(seen) >= MOST or next(places) % APART:
            return
        session = recording.session
        trace = recording.so_far(place.frame)
        if trace is None or session is None:
            return
        backward = _last(trace).backward
        assert backward is not None
        seen.append((_told(backward), _held(lambda node: int(session.ids(node.record_nr)))))

    with record() as recording:
        recordings.append(recording)
        recording.stop_at(StopPlaces(gate))
        outcome(gradscope.runtime, program)

    for told, held in seen:
        counts, queued, buffers = told  # type: ignore[misc]
        expected_counts, expected_queue, expected_buffers = held  # type: ignore[misc]
        assert counts == expected_counts
        assert queued == expected_queue
        assert {key for key, empty in expected_buffers.items() if not empty} <= buffers.keys()


@pytest.mark.parametrize("engine", ENGINES)
@searching(10)
@given(program=programs())
def test_a_trace_so_far_says_what_the_whole_trace_says_later(engine: str, program: Program) -> None:
    torch, seen, recordings, places = _engine(engine), [], [], count()

    def gate(place: StopPlace) -> None:
        if place.kind not in ("begins", "ran") or len(seen) >= MOST or next(places) % APART:
            return
        trace = recordings[0].so_far(place.frame, running=place.kind == "ran")
        state = None if trace is None else _last(trace)
        if state is not None and isinstance(state.happened, NodeBegin) and state.backward:
            seen.append((state.happened.task, state.happened.node, _told(state.backward)))

    with record(on=engine) as recording:
        recordings.append(recording)
        recording.stop_at(StopPlaces(gate))
        outcome(torch, program)
    trace = recording.trace()
    rows = trace.table(NodeBegin)
    keys = zip(rows["task"].tolist(), rows["node"].tolist(), strict=True)
    begun = dict(zip(keys, trace.once(Moments).of(NodeBegin).tolist(), strict=True))

    for task, node, told in seen:
        if (task, node) not in begun:
            # A hook raised after ours, so it never began; or what came later was not foretold.
            row = trace.table(GraphTask).row(task)
            assert row.error or row.order not in (Order.TOLD, Order.FORETOLD)
            continue
        backward = at(trace, begun[task, node]).backward
        assert backward is not None
        assert told == _told(backward)


@pytest.mark.parametrize("engine", ENGINES)
@searching(25)
@given(program=programs())
def test_a_program_comes_to_the_same_where_it_can_be_stopped(engine: str, program: Program) -> None:
    torch = _engine(engine)
    alone = outcome(torch, program)
    with record(on=engine) as recording:
        recording.stop_at(StopPlaces(lambda _: None))
        watched = outcome(torch, program)

    assert _same(watched, alone)


def _same(one: Any, other: Any) -> bool:
    return repr(one) == repr(other)
