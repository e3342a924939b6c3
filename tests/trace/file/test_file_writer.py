"""Where producers put rows: from many threads, with a full disk, within a budget, across a fork."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradscope.errors import LateBlockError, UsageError
from gradscope.trace.load_save import load
from gradscope.trace.ragged import Ragged
from gradscope.trace.schema import Meta, Node, Push, Row, Saved, String, Tensor
from gradscope.trace.writer import FileWriter, MemoryWriter, NullWriter, Writer


def push_window(writer: Writer, window: int, rows: int = 100) -> None:
    seq = np.arange(window * rows, (window + 1) * rows)
    writer.block(Push, {"seq": seq, "t": seq * 7919 % 10_007, "node": seq % 13})
    writer.commit()


@pytest.mark.parametrize("background", [False, True])
def test_what_is_committed_can_be_read_before_the_file_is_closed(
    background: bool, tmp_path: Path
) -> None:
    writer = FileWriter(tmp_path / "trace.json", background=background, queued=0)

    push_window(writer, 0)
    writer.block(Push, {"seq": [100]})
    trace = load(tmp_path / "trace.json")
    writer.close()

    assert (trace.event_count, trace.truncated, trace.horizon) == (100, True, 99)
    assert load(tmp_path / "trace.json").event_count == 101


def test_a_new_file_is_a_readable_trace_at_once(tmp_path: Path) -> None:
    writer = FileWriter(tmp_path / "trace.json")

    trace = load(tmp_path / "trace.json")
    (note,) = trace.notes
    assert note.startswith("still being recorded: this is what was written until")
    assert (trace.truncated, trace.event_count, trace.lost) == (True, 0, 0)
    copied = tmp_path / "copied.json"  # nobody writes it
    copied.write_bytes(writer.path.read_bytes())
    (note,) = load(copied).notes
    assert note.startswith("truncated: 0 events recovered, 0 bytes lost; the end of the run may be")
    assert not os.access(tmp_path / "trace.json", os.X_OK)


@pytest.mark.parametrize("make", [MemoryWriter, NullWriter, "file"])
def test_closing_twice_does_nothing_and_late_rows_are_an_error(make: Any, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    writer: Writer = FileWriter(path) if make == "file" else make()
    push_window(writer, 0)
    writer.close()
    size = path.stat().st_size if path.exists() else 0

    writer.close()
    with pytest.raises(LateBlockError, match=r"rows for 'event\.push' came after its end"):
        push_window(writer, 1)
    writer.commit()
    writer.close()

    assert (path.stat().st_size if path.exists() else 0) == size


@pytest.mark.parametrize("background", [False, True])
def test_any_thread_may_write(background: bool, tmp_path: Path) -> None:
    writer = FileWriter(tmp_path / "trace.json", background=background, queued=1 << 14)
    threads, windows = 8, 40

    def produce(thread: int) -> None:
        for window in range(windows):
            name = writer.intern(f"name {window}")
            number = thread * windows + window
            writer.block(Node, {"id": [number], "name": [name], "thread": [thread]})
            push_window(writer, number, rows=10)

    run_together([partial(produce, thread) for thread in range(threads)])
    writer.close()

    trace = load(tmp_path / "trace.json")
    assert sorted(trace.table(Push)["seq"]) == list(range(threads * windows * 10))
    assert {(n.id, n.thread, n.name) for n in trace.rows(Node)} == {
        (thread * windows + window, thread, f"name {window}")
        for thread in range(threads)
        for window in range(windows)
    }
    assert len(trace.table(String)) == windows


def run_together(jobs: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_producer_may_use_its_buffers_again() -> None:
    writer = MemoryWriter()
    buffer, values = np.arange(3), np.array([1, 2, 3])
    frozen = np.arange(3)
    frozen.flags.writeable = False

    writer.block(Push, {"seq": buffer, "node": frozen})
    writer.block(Tensor, {"id": [1], "shape": Ragged(np.array([0, 3]), values)})
    buffer[:], values[:] = 0, 0

    trace = writer.trace()
    assert trace.table(Push)["seq"].tolist() == [0, 1, 2]
    assert trace.table(Tensor)["shape"].tuples() == [(1, 2, 3)]
    assert np.shares_memory(trace.table(Push)["node"], frozen)


@pytest.mark.parametrize(
    ("row", "columns", "reason"),
    [
        (Push, {"seq": [1], "colour": [2]}, "event.push has no column colour"),
        (Push, {"seq": [1, 2], "node": [1]}, "differ in length: seq 2, node 1"),
        (Push, {}, "no columns"),
        (Push, {"seq": [0.5]}, "event.push.seq holds int64"),
        (Push, {"seq": ["1"]}, "event.push.seq holds int64"),
        (Push, {"seq": [2**63]}, "event.push.seq holds int64"),
        (Push, {"seq": [[1]]}, "expected 1 dimension, not 2"),
        (Push, {"seq": np.zeros(3)}, "event.push.seq holds int64"),
        (Node, {"id": [1], "name": [5]}, "has text id 5, not from intern()"),
        (Node, {"id": [1], "name": ["MulBackward0"]}, "node.name holds int64"),
        (String, {"id": [1], "text": ["a"]}, "call intern()"),
    ],
)
@pytest.mark.parametrize("make", [MemoryWriter, "file"])
def test_rows_that_do_not_fit_are_refused_where_they_are_written(
    make: Any, row: type[Row], columns: Mapping[str, Any], reason: str, tmp_path: Path
) -> None:
    writer: Writer = FileWriter(tmp_path / "trace.json") if make == "file" else make()

    with pytest.raises(UsageError) as caught:
        writer.block(row, columns)

    assert reason in str(caught.value)


def test_an_amendment_needs_ids_and_something_to_change() -> None:
    for columns in ({"released": [1]}, {"id": [1]}, {}):
        with pytest.raises(
            UsageError, match="an amendment of saved needs ids and columns to change"
        ):
            MemoryWriter().block(Saved, columns, amend=True)


def test_an_amendment_of_a_row_that_is_not_there_is_noted() -> None:
    writer = MemoryWriter()
    writer.block(Saved, {"id": [1]})
    writer.block(Saved, {"id": [1, 2, 3], "released": [7, 8, 9]}, amend=True)

    assert list(writer.trace().rows(Saved)) == [Saved(1, released=7)]
    assert writer.trace().notes == ("2 amendments of 'saved' name unknown rows",)


# Budgets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_when_the_budget_is_spent_whole_windows_are_left_out_and_counted(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    writer = FileWriter(path, max_bytes=8_000, background=False)
    writer.block(Meta, {"key": [writer.intern("level")], "value": [writer.intern('"engine"')]})
    for window in range(50):
        writer.block(Node, {"id": [window], "name": [writer.intern(f"node {window}")]})
        push_window(writer, window)
    writer.block(Meta, {"key": [writer.intern("exit_code")], "value": [writer.intern("3")]})
    writer.close()

    trace = load(path)

    kept = len(trace.table(Node))
    assert 0 < kept < 50
    assert trace.table(Push)["seq"].tolist() == list(range(kept * 100))
    assert [node.name for node in trace.rows(Node)] == [f"node {n}" for n in range(kept)]
    dropped = {"node": 50 - kept, "event.push": (50 - kept) * 100}
    assert trace.meta == {"level": "engine", "exit_code": 3, "dropped": dropped}
    assert not trace.truncated
    rows, pushes, nodes = sum(dropped.values()), dropped["event.push"], dropped["node"]
    note = f"dropped: {rows} rows were not recorded (event.push {pushes}, node {nodes})"
    assert trace.notes == (note,)
    index = 3_000
    assert path.stat().st_size <= 8_000 + index


def test_that_rows_are_dropped_is_known_even_if_the_program_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    writer = FileWriter(path, max_bytes=2_000)
    for window in range(20):
        push_window(writer, window)

    trace = load(path)

    assert trace.truncated
    assert trace.meta["dropped"] == {"event.push": 100}


def test_what_the_producer_dropped_is_added_to_what_the_budget_did(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    writer = FileWriter(path, max_bytes=2_000)
    said = writer.intern('{"step": 4, "event.push": 1000}')
    writer.block(Meta, {"key": [writer.intern("dropped")], "value": [said]})
    for window in range(20):
        push_window(writer, window)
    kept = load(path).event_count
    writer.close()

    assert load(path).meta["dropped"] == {"event.push": 1000 + 2000 - kept, "step": 4}


def test_a_producer_and_a_writing_thread_do_not_get_in_each_others_way(tmp_path: Path) -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        writer = FileWriter(tmp_path / "trace.json", background=True)
        for window in range(2_000):
            push_window(writer, window, rows=2)
        writer.close()
    finally:
        sys.setswitchinterval(interval)

    assert load(tmp_path / "trace.json").table(Push)["seq"].tolist() == list(range(4_000))
