"""Shorthand from files that were cut, or that somebody made to hurt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from gradscope.errors import UnreadableTraceError
from gradscope.trace.file.file_lines import seal
from gradscope.trace.load_save import decode, encode, load
from gradscope.trace.schema import (
    BufferAdded,
    BufferMade,
    Decrement,
    Device,
    GraphTask,
    Node,
    Pop,
    Push,
    TaskEnd,
    Tensor,
    Thread,
)
from gradscope.trace.shorthand import tables
from gradscope.trace.shorthand.run_events import UNKNOWN
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace
from gradscope.trace.writer import FileWriter
from tests.trace.file.test_hostile_files import HOSTILE, trace_text, use

TASK_BEGIN, PUSH, TASK_END = 4, 3, 5


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return written(tmp_path / "trace.json", [0, 1])


def written(path: Path, how: list[int]) -> Path:
    """y = x * x; y.sum().backward(), in shorthand: the calls in one window, the run in a second.

    `how` the two gradients for x are kept.
    """
    writer = FileWriter(path)
    i = writer.intern
    writer.block(Thread, {"id": [0], "name": [i("main")]})
    writer.block(Device, {"id": [0]})
    writer.block(Tensor, {"id": [0], "leaf": [True]})
    writer.block(Node, {"id": [0], "name": [i("AccumulateGrad")], "sequence_nr": [-1]})
    writer.block(
        tables.ShortOperator,
        {
            "number": [0, 1],
            "name": [i("mul"), i("sum")],
            "node_name": [i("MulBackward0"), i("SumBackward0")],
            "reason": [2, 2],
            "sources": [(0, 1), (0,)],
        },
    )
    slots = {"name": [i("self"), i("other")], "source": [0, 1], "wanted": [2, 1]}
    writer.block(tables.ShortSlot, {"operator": [0, 0], **slots})
    dtype = [i("float32")] * 2
    writer.block(
        tables.ShortLayout, {"id": [0, 1], "shape": [(2, 2), ()], "dtype": dtype, "bytes": [16, 4]}
    )
    nowhere = {key: [-1] for key in ("task", "step", "module")}
    writer.block(tables.ShortContext, {"id": [0], "thread": [0], "phase": [0], **nowhere})
    called = {"begin": [10, 20], "end": [12, 22], "context": [0, 0], "op": [0, 1]}
    nodes = {"sequence": [1, 2], "topological": [1, 2], "site": [-1, -1], "layout": [0, 1]}
    taken = {"first": [0, 3], "second": [0, -1]}
    writer.block(tables.ShortCall, {"number": [1, 2], **called, **nodes, **taken})
    writer.block(tables.ShortOrigin, {"tensor": [0], "since": [0], "node": [0], "output": [0]})
    writer.commit()
    writer.block(GraphTask, {"id": [0], "roots": [(2,)], "thread": [0]})
    counted = {"t": [31, 32], "task": [0, 0], "node": [1, 0], "count": [1, 2]}
    writer.block(tables.ShortCounted, counted)
    zeros = {key: [0, 0] for key in ("thread", "task", "a", "c", "d")}
    begun = {"t": [30, 33], "code": [TASK_BEGIN, PUSH], "node": [-1, 2], "b": [0, 1]}
    writer.block(tables.ShortSingle, begun | zeros)
    writer.block(tables.ShortRun, run_of([40], [45], [2]))
    writer.block(tables.ShortMove, move_of([40], [1], [0], [0], [0], [1]))
    writer.commit()
    writer.block(tables.ShortRun, run_of([50, 60], [55, 65], [1, 0]))
    writer.block(tables.ShortMove, move_of([50, 50], [0, 0], [0, 1], how, [1, 0], [0, 1]))
    ended = {"t": [90], "code": [TASK_END], "node": [-1], "b": [0]}
    writer.block(tables.ShortSingle, ended | {name: [0] for name in zeros})
    writer.close()
    return path


def run_of(begin: list[int], ended: list[int], node: list[int]) -> dict[str, list[int]]:
    zeros = [0] * len(begin)
    told = {"popped": zeros, "told": [1] * len(begin)}
    return {"begin": begin, "ended": ended, "task": zeros, "node": node, **told}


def move_of(*columns: list[int]) -> dict[str, list[int]]:
    begin, target, index, how, left, length = columns
    nr = [0] * len(begin)
    return {
        "begin": begin, "target": target, "index": index, "nr": nr, "how": how, "left": left,
        "length": length,
    }  # fmt: skip


def test_shorthand_is_written_out_to_a_trace_that_keeps_the_spec(path: Path) -> None:
    trace = load(path)

    assert check(trace) == []
    assert [node.name for node in trace.rows(Node)] == [
        "AccumulateGrad",
        "MulBackward0",
        "SumBackward0",
    ]
    assert [pop.node for pop in trace.events(Pop)] == [2, 1, 0]
    assert [d.remaining for d in trace.events(Decrement)] == [0, 1, 0]
    assert len(list(trace.events(TaskEnd))) == 1
    assert decode(encode(trace)) == trace


def test_a_gradient_may_be_passed_on_without_saying_whether_it_was_added(path: Path) -> None:
    trace = load(written(path.with_name("unknown.json"), [UNKNOWN, UNKNOWN]))
    buffers = {event.seq for event in load(path).events(BufferMade, BufferAdded, node=0)}

    assert len(buffers) == 2
    assert check(trace) == []
    assert [event.node for event in trace.events(BufferMade, BufferAdded)] == [1]
    for kind in (Decrement, Push, Pop):
        other = [replace(event, seq=0) for event in load(path).events(kind)]
        assert [replace(event, seq=0) for event in trace.events(kind)] == other


def test_some_tables_of_it_can_be_opened_alone(path: Path) -> None:
    assert list(load(path, [Node]).rows(Node)) == list(load(path).rows(Node))


def test_a_file_opens_wherever_it_is_cut(path: Path) -> None:
    text = path.read_bytes()
    for cut in range(text.index(b"\n") + 1, len(text), 41):
        assert decode(text[:cut]).truncated or cut > text.index(b'{"end"')


def test_a_cut_file_has_its_horizon_where_its_last_whole_window_ends(path: Path) -> None:
    text = path.read_bytes()
    windows = [text.index(b'{"window":%d' % number) for number in (1, 2, 3)]
    horizons = []

    for place in windows:
        within = decode(text[:place])
        after = decode(text[: text.index(b"\n", place) + 1])
        assert check(within) == check(after) == []
        horizons += [(within.event_count, within.horizon), (after.event_count, after.horizon)]

    assert horizons == [(0, -1), (0, -1), (11, -1), (11, 10), (25, 10), (25, 24)]


def mutations(path: Path) -> Iterator[tuple[str, bytes]]:
    """One hostile value in one place, all checksums right."""
    lines = [line for line in path.read_bytes().splitlines() if line.startswith(b'{"table"')]
    blocks = [orjson.loads(line.removesuffix(b",")) for line in lines]
    for block in blocks:
        del block["crc32"]
    sealed = [seal(block) for block in blocks]
    for number, block in enumerate(blocks):
        if block["table"] in tables.SHORT:
            for place, name in enumerate([*block, "amend", "stranger"]):
                for value in HOSTILE[(number + place) % 3 :: 3]:
                    line = seal(block | {name: value})
                    text = trace_text(*sealed[:number], line, *sealed[number + 1 :])
                    yield f"{block['table']}.{name} is {str(value)[:80]}", text


def test_hostile_shorthand_opens_or_is_refused(path: Path) -> None:
    opened: list[Trace] = []

    for place, text in mutations(path):
        try:
            trace = decode(text)
        except UnreadableTraceError as error:
            assert str(error).isprintable(), place  # noqa: PT017 - the place is worth knowing
        else:
            opened.append(trace)

    for trace in opened[::9]:
        use(trace)
    assert opened


WIDE = {"number": 0, "name": 0, "node_name": 0, "reason": 0}
CALLS = dict.fromkeys(
    ("begin", "end", "context", "op", "sequence", "topological", "first", "second", "site"), 0
)
CONTEXT = {"table": "short.context", "rows": 1, "id": 0, "thread": 0, "module": 0, "task": 0}


@pytest.mark.parametrize("many", ["dimensions", "edges", "slots"])
def test_short_rows_that_stand_for_too_much_are_refused(many: str) -> None:
    counts = dict.fromkeys(("dimensions", "edges", "slots"), 1) | {many: 20_000}
    dimensions, edges, slots = counts.values()
    rows = 20_000
    lines = [
        {"table": "short.operator", "rows": 1, **WIDE, "sources": lists(edges)},
        {"table": "short.layout", "rows": 1, "id": 0, "shape": lists(dimensions), "dtype": 0,
         "bytes": 0},
        {"table": "short.slot", "rows": slots, "operator": 0, "name": [0] * slots, "source": 0,
         "wanted": 0},
        CONTEXT | {"step": 0, "phase": 0},
        {"table": "short.call", "rows": rows, "number": list(range(rows)), **CALLS, "layout": 0},
    ]  # fmt: skip

    with pytest.raises(UnreadableTraceError, match="shorthand"):
        decode(trace_text(*map(seal, lines)))


def lists(values: int) -> dict[str, object]:
    return {"lengths": [values], "values": [0] * values}
