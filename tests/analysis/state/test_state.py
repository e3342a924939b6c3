"""The state at any moment is what playing all events up to it leaves."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from hypothesis import given

import gradscope.runtime as torch
from gradscope.analysis.state.backward import BackwardState
from gradscope.analysis.state.state import State, at
from gradscope.record.recorder import record
from gradscope.trace import schema
from gradscope.trace.schema import NONE
from gradscope.trace.trace import Trace
from tests.programs import Program, outcome, programs
from tests.shared.searching import searching


class Played:
    """One backward, event by event."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.came: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self.queued: Counter[int] = Counter()
        self.running: list[int] = []
        self.buffers: Counter[tuple[int, int]] = Counter()
        self.captured: list[tuple[int, int]] = []

    def play(self, event: schema.Event) -> None:
        match event:
            case schema.Dependency():
                self.counts[event.node] = event.count
            case schema.Push():
                self.counts.pop(event.node, None)
                self.queued[event.node] += 1
            case schema.Pop():
                self.queued[event.node] -= 1
                self.running.append(event.node)
            case schema.NodeBegin() | schema.Skipped():
                self._begins(event.node)
                if isinstance(event, schema.Skipped):
                    self.counts.pop(event.node, None)
                    if event.node in self.running:
                        self.running.remove(event.node)
            case schema.NodeEnd():
                self.running.remove(event.node)
            case schema.Decrement():
                self.came[event.node].append((event.source, event.index))
            case schema.BufferMade():
                self.buffers[event.node, event.input_nr] += 1
            case schema.BufferAdded():
                self.buffers[event.node, event.input_nr] += 1
            case schema.Capture():
                self.captured.append((event.node, event.input_nr))

    def _begins(self, node: int) -> None:
        self.came.pop(node, None)
        for key in [key for key in self.buffers if key[0] == node]:
            del self.buffers[key]

    def told(self, needed: set[int] | None = None) -> object:
        counts = {node: n for node, n in self.counts.items() if not needed or node in needed}
        return (
            counts, {node: came for node, came in self.came.items() if came},
            sorted((+self.queued).elements()), sorted(self.running), dict(self.buffers),
            self.captured,
        )  # fmt: skip


def told(backward: BackwardState) -> object:
    came = {node: backward.arrived(node) for node in backward._came}
    return (
        {each.node: each.count for each in backward.all_waiting()},
        {node: [(each.source, each.index) for each in all_] for node, all_ in came.items()},
        sorted(each.node for each in backward.queued),
        sorted(each.node for each in backward.running),
        {(each.node, each.input_nr): 1 + each.added for each in backward.buffers},
        list(backward.captured),
    )


def states(trace: Trace) -> Iterator[State]:
    if trace.event_count:
        yield from (at(trace, number) for number in range(len(at(trace, 0))))


def _needed(trace: Trace, task: int) -> set[int]:
    row = trace.table(schema.GraphTask).row(task)
    return {*row.needed, *row.captured}


@searching(40)
@given(programs())
def test_any_moment_is_what_playing_up_to_it_leaves(program: Program) -> None:
    with record() as recording:
        outcome(torch, program)
    trace = recording.trace()

    played: dict[int, Played] = {}
    for state in states(trace):
        event = state.happened
        if isinstance(event, schema.Event) and event.task != NONE:
            if isinstance(event, schema.TaskEnd):
                played.pop(event.task, None)
            else:
                played.setdefault(event.task, Played()).play(event)
        seen = {backward.task.id: told(backward) for backward in state.backwards}
        nothing = Played().told()
        for task in seen.keys() | played.keys():
            expected = played[task].told(_needed(trace, task)) if task in played else nothing
            assert seen.get(task, nothing) == expected, state
