"""The state of every node at every event is what the events up to there say."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gradscope.analysis.timing.passages import PassageState, passages
from gradscope.trace.schema import GraphTask, Node, NodeBegin, NodeEnd, Push
from gradscope.trace.trace import Trace
from tests.shared.example_traces import mean_of_squares, nan_in_backward, two_layers


def told(trace: Trace, place: int) -> list[PassageState]:
    """Walk through the events, one by one, as slowly as can be."""
    ids = trace.table(Node)["id"].tolist()
    events = [*trace.events()]
    passing = {event.node for event in events if isinstance(event, Push | NodeBegin)}
    found = {id: PassageState.WAITING if id in passing else PassageState.NOT_RUN for id in ids}
    for event in events[: place + 1]:
        if isinstance(event, Push):
            found[event.node] = PassageState.READY
        elif isinstance(event, NodeBegin):
            found[event.node] = PassageState.RUNNING
        elif isinstance(event, NodeEnd):
            found[event.node] = PassageState.FAILED if event.failed else PassageState.DONE
    return [found[id] for id in ids]


@pytest.mark.parametrize("make", [mean_of_squares, nan_in_backward, two_layers])
def test_states_follow_the_events(make: Callable[[], Trace]) -> None:
    trace = make()
    ids = np.asarray(trace.table(Node)["id"])
    all_passages = passages(trace)

    for place in range(trace.event_count):
        assert all_passages.states(ids, place).tolist() == told(trace, place)


def test_of_one_backward_only_its_own_passages_count() -> None:
    trace = two_layers()
    ids = np.asarray(trace.table(Node)["id"])
    other = int(trace.table(GraphTask)["id"].max()) + 1

    states = passages(trace).states(ids, trace.event_count - 1, task=other)

    assert set(states.tolist()) == {PassageState.NOT_RUN}
