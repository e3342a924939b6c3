"""Reports of compilers, and standing aside while they trace; the reports are made by hand."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from gradscope.watch.called.compiling import LOGGER, CompilerEvent, CompilerEvents
from gradscope.watch.in_place.faults import Faults
from gradscope.watch.in_place.standing_in import HERE


class Heard:
    """A listener, and what it was told."""

    def __init__(self) -> None:
        self.events: list[CompilerEvent] = []
        self.aside: list[bool] = []
        self.raises = False

    def compiler_told(self, event: CompilerEvent, frame: Any) -> None:
        if self.raises:
            raise ValueError("no")
        self.events.append(event)

    def stand_aside(self, *, aside: bool) -> None:
        self.aside.append(aside)


@pytest.fixture
def heard() -> Iterator[tuple[Heard, Faults]]:
    made, faults = Heard(), Faults()
    events = CompilerEvents(made, faults, made.stand_aside)  # type: ignore[arg-type]
    events.start()
    try:
        yield made, faults
    finally:
        events.stop()
    assert not HERE.ours
    assert events not in logging.getLogger(LOGGER).handlers


def report(payload: Any = None, **metadata: Any) -> None:
    logger = logging.getLogger(LOGGER)
    logger.setLevel(logging.DEBUG)
    text = payload if isinstance(payload, str | None) else json.dumps(payload)
    logger.debug("", extra={"metadata": metadata, "payload": text})


def phase(kind: str, name: str) -> None:
    report({"ph": kind, "name": name}, chromium_event={})


def test_a_thread_stands_aside_from_the_first_phase_to_its_end(heard: tuple[Heard, Faults]) -> None:
    made, _ = heard
    phase("B", "dynamo")
    phase("B", "backend_compile")
    inside = HERE.ours
    phase("E", "backend_compile")
    phase("E", "dynamo")

    assert (inside, HERE.ours, made.aside) == (True, False, [True, False])


def test_a_phase_that_never_said_that_it_ended_ends_with_the_one_around_it(
    heard: tuple[Heard, Faults],
) -> None:
    made, _ = heard
    phase("E", "never begun")
    phase("B", "dynamo")
    phase("B", "lost")
    phase("E", "dynamo")

    assert (HERE.ours, made.aside) == (False, [True, False])


def test_two_threads_that_compile_stand_aside_until_both_have_ended(
    heard: tuple[Heard, Faults],
) -> None:
    made, _ = heard
    phase("B", "dynamo")
    others = []

    def other() -> None:
        before = HERE.ours
        phase("B", "dynamo")
        phase("E", "dynamo")
        others.append((before, HERE.ours))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    still = list(made.aside)
    phase("E", "dynamo")

    assert (others, still, made.aside) == ([(False, False)], [True], [True, False])


def test_without_phases_a_compilation_begins_and_ends_with_its_own_reports(
    heard: tuple[Heard, Faults],
) -> None:
    made, _ = heard
    report(dynamo_start={}, frame_id=0, frame_compile_id=1)
    inside = HERE.ours
    report(compilation_metrics={"co_name": "f"}, frame_id=0, frame_compile_id=1)

    assert (inside, HERE.ours) == (True, False)
    assert [(each.kind, each.name) for each in made.events] == [
        ("dynamo_start", "0/1"),
        ("compilation_metrics", "0/1"),
    ]


def test_artifacts_are_named_and_other_reports_are_left_out(heard: tuple[Heard, Faults]) -> None:
    made, _ = heard
    artifact = {"name": "dynamo_graph_break_reason", "encoding": "string"}
    report("why", artifact=artifact, frame_id=2, frame_compile_id=0, attempt=1)
    report("text", artifact={"name": "fx_graph_runnable"}, frame_id=2, frame_compile_id=0)
    report("class G: pass", aot_forward_graph={}, compiled_autograd_id=7)
    report(describe_tensor={})

    told = [(each.kind, each.name, each.attempt, each.text) for each in made.events]
    assert told == [
        ("dynamo_graph_break_reason", "2/0", 1, "why"),
        ("aot_forward_graph", "!7/0", 0, "class G: pass"),
    ]


def test_a_fault_of_gradscope_does_not_reach_the_compiler(heard: tuple[Heard, Faults]) -> None:
    made, faults = heard
    made.raises = True
    report("class G: pass", aot_forward_graph={})
    report("not json", chromium_event={})

    assert sum(faults.texts.values()) == 2
    assert all(text.startswith("a compiler reported: ") for text in faults.texts)
