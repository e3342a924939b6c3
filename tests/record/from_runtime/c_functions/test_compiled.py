"""Compiled functions do what their source says, and note what their twins in Python note."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import gradscope.runtime as torch
from gradscope.machine_code.callables import offset
from gradscope.record.from_runtime import paused
from gradscope.record.from_runtime.c_functions.telling import Functions
from gradscope.record.from_runtime.hot.compiling import Compiling
from gradscope.record.notes.c_functions import OURS
from gradscope.record.notes.c_functions.note_buffers import Counter, NumberBuffer, SiteTable
from gradscope.record.notes.log import Log
from gradscope.record.recorder import record
from gradscope.runtime.core import probe
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.trace.schema import Edge, Node, Op, Saved
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace
from tests.programs import Program, outcome, programs
from tests.shared.searching import searching

WORDS = st.integers(-(2**40), 2**40)


@pytest.fixture(scope="module")
def functions() -> Functions:
    return Functions()


# The parts -----------------------------------------------------------------------------------


@given(st.lists(st.tuples(WORDS, WORDS, WORDS), max_size=40), st.integers(0, 40))
def test_a_log_keeps_what_is_noted_before_and_after_it_is_compiled(
    records: list[tuple[int, int, int]], turn: int
) -> None:
    log = Log(3)
    for index, numbers in enumerate(records):
        if index == turn:
            log.compile(FUNCTIONS)
        log.note(*numbers)

    assert len(log) == len(records)
    assert log.take().T.tolist() == [list(numbers) for numbers in records]
    assert log.take().shape == (3, 0)


FUNCTIONS = Functions()


def test_a_full_buffer_gives_what_is_left_to_somebody_else(
    functions: Functions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NumberBuffer, "RECORDS", 4)
    over: list[tuple[int, ...]] = []
    buffer = NumberBuffer(functions, 2, lambda *numbers: over.append(numbers))

    for i in range(6):
        buffer.push(i, -i)

    assert buffer.take().tolist() == [[0, 1, 2, 3], [0, -1, -2, -3]]
    assert over == [(4, -4), (5, -5)]
    buffer.push(9, 9)
    assert buffer.take().tolist() == [[9], [9]]


def test_threads_lose_nothing_while_another_takes(functions: Functions) -> None:
    log, seen, going = Log(2), [], True
    log.compile(functions)

    def push(thread: int) -> None:
        for i in range(20_000):
            log.note(thread, i)

    def take() -> None:
        while going:
            seen.append(log.take())

    pushing = [threading.Thread(target=push, args=(n,)) for n in range(3)]
    taking = threading.Thread(target=take)
    for each in (*pushing, taking):
        each.start()
    for each in pushing:
        each.join()
    going = False
    taking.join()
    seen.append(log.take())

    thread, number = np.concatenate(seen, axis=1)
    for n in range(3):
        assert number[thread == n].tolist() == list(range(20_000))


def test_a_counter_stops_at_the_end_of_its_window(functions: Functions) -> None:
    counter = Counter(functions)
    counter.renew(11, 15)

    assert [counter.next(), counter.next()] == [11, 13]
    with pytest.raises(StopIteration):
        counter.next()


def test_a_table_knows_places_and_asks_about_others(functions: Functions) -> None:
    asked: list[Any] = []

    def ask(frame: Any) -> int:
        asked.append(frame.f_code.co_name)
        return 5

    table = SiteTable(functions, {}, ask)

    def inner() -> int:
        return int(table.site(sys._getframe(0)))

    def outer() -> int:
        return inner()

    assert (outer(), asked) == (5, ["inner"])
    for offset_in in range(0, len(inner.__code__.co_code), 2):
        table.add(id(inner.__code__) + offset_in, OURS)
    for offset_in in range(0, len(outer.__code__.co_code), 2):
        table.add(id(outer.__code__) + offset_in, 77)
    assert (outer(), asked) == (77, ["inner"])
    for address in range(1 << 40, (1 << 40) + 5000):
        table.add(address, address & 7)
    assert (outer(), asked) == (77, ["inner"])


def test_what_asking_raises_is_raised(functions: Functions) -> None:
    def ask(frame: Any) -> int:
        raise ValueError("nobody knows")

    with pytest.raises(ValueError, match="nobody knows"):
        SiteTable(functions, {}, ask).site(sys._getframe(0))


def test_where_a_slot_lies() -> None:
    tensor = torch.ones(2)
    tensor.record_nr = marker = 123456789

    found = ctypes.c_int64.from_address(id(tensor) + offset(Tensor, "record_nr")).value

    assert found == id(tensor.record_nr) == id(marker)


# The twins -----------------------------------------------------------------------------------


@pytest.fixture
def untried() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Compiling, "_tried", True)
        yield patch


def told(trace: Trace) -> list[object]:
    """All that does not depend on time, or on what the thread did before."""
    first: dict[int, int] = {}  # of each thread
    for node in trace.rows(Node):
        if node.sequence_nr >= 0:
            first[node.thread] = min(node.sequence_nr, first.get(node.thread, node.sequence_nr))
    made: list[object] = [
        [
            (op.id, op.name, op.inputs, op.outputs, op.node, op.why, op.stack)
            for op in trace.rows(Op)
        ],
        [
            (
                n.id,
                n.name,
                max(n.sequence_nr - first.get(n.thread, 0), -1),
                n.topological_nr,
                n.stack,
            )
            for n in trace.rows(Node)
        ],
        [(e.node, e.index, e.next, e.input_nr) for e in trace.rows(Edge)],
        [(s.node, s.slot, s.tensor, s.version) for s in trace.rows(Saved)],
    ]
    for event in trace.events():
        row = {name: getattr(event, name) for name in event.__slots__ if name != "t"}
        made.append((type(event).__name__, sorted(row.items())))
    return made


@searching(20)
@given(programs())
def test_both_twins_note_the_same(program: Program) -> None:
    found = []
    for made in (None, FUNCTIONS):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Compiling, "_tried", True)
            patch.setattr(Compiling, "functions", made)
            with record() as recording:
                outcome(torch, program)
            found.append(told(recording.trace()))

    assert found[0] == found[1]


def test_a_long_recording_is_compiled_on_its_way(untried: pytest.MonkeyPatch) -> None:
    untried.setattr(Compiling, "functions", None)
    untried.setattr(Compiling, "_tried", False)
    untried.setattr(Compiling, "_records", 0)
    x = torch.ones(3, requires_grad=True)

    with record() as recording:
        for _ in range(6_000):
            ((x * 2).tanh() + x).sum().backward()

    trace = recording.trace()
    assert Compiling.functions is not None
    assert len(trace.table(Op)) == 24_000
    assert check(trace) == []


# The end -------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["graph", "engine", "values", "full"])
@pytest.mark.parametrize("compiled", [True, False])
def test_of_a_recording_that_is_over_nothing_is_left_for_the_collector(
    level: str, compiled: bool, functions: Functions, untried: pytest.MonkeyPatch
) -> None:
    untried.setattr(Compiling, "functions", functions if compiled else None)
    untried.setattr(paused, "others", lambda: False)  # they would be given a moment
    x = torch.ones(3, requires_grad=True)

    def recorded() -> list[weakref.ref[Any]]:
        with record(level=level) as recording:
            (x * 2).sum().backward()
            torch.optim.SGD([x], lr=0.1).step()
            session = recording.session
            assert session is not None
            noting: Any = probe.here
            buffers = [log.buffer for log in noting.logs if log.buffer is not None]
            assert len(buffers) == 5 * (compiled and level in ("graph", "engine"))
        seen = (recording, recording.writer, session, session.contexts, noting, *noting.logs)
        return [weakref.ref(each) for each in (*seen, noting.catalog, *buffers)]

    recorded()  # what is made once in a process
    gc.collect()
    gc.disable()
    try:
        left = [each() for each in recorded()]
    finally:
        gc.enable()

    assert [type(each).__name__ for each in left if each is not None] == []


def test_who_holds_a_callable_when_a_recording_ends_may_call_it(functions: Functions) -> None:
    log = Log(2)
    buffer = weakref.ref(log.compile(functions))
    push = log.note
    log.finish()

    push(1, 2)
    log.note(3, 4)

    late = buffer()
    assert late is not None
    assert late.take().T.tolist() == [[1, 2]]
    assert log.take().T.tolist() == [[3, 4]]
    del late, push
    assert buffer() is None


def test_recordings_end_while_threads_are_in_the_middle_of_calls(
    functions: Functions, untried: pytest.MonkeyPatch
) -> None:
    untried.setattr(Compiling, "functions", functions)
    errors: list[BaseException] = []
    going = True

    def compute() -> None:
        x = torch.ones(3, requires_grad=True)
        try:
            while going:
                ((x * 2).tanh() + x).sum().backward()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=compute) for _ in range(2)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for each in threads:
            each.start()
        for _ in range(12):
            with record() as recording:
                (torch.ones(3, requires_grad=True) * 2).sum().backward()
            assert check(recording.trace()) == []
    finally:
        going = False
        for each in threads:
            each.join()
        sys.setswitchinterval(interval)

    assert errors == []
